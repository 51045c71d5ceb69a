// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"

	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
)

// standsStill says whether a host will stand still for a move when the change is made.
func standsStill(host *infrav1.IngotHost, change Change) bool {
	_, paused := host.Annotations[infrav1.MovePausedAnnotation]
	return (paused || change.Pause) && !change.Lift
}

// settle has the host's IPAddressClaims stand still or go on as the host will. They come
// before it: clusterctl copies them once the hosts have stood still, and creates them
// before the IPAddresses that they own, so that a provider on the target would give each
// another address meanwhile. And a host that goes on asks at once what its claim holds.
// false: somebody wrote meanwhile.
func (p *pass) settle(ctx context.Context, host *infrav1.IngotHost, change Change) (bool, error) {
	if isLeaving(host) || p.WatchFilterValue != "" && !labels.HasWatchLabel(host, p.WatchFilterValue) {
		return true, nil
	}
	pools := pool.Pools{Client: p.Client}
	do := pools.GoOn
	if standsStill(host, change) {
		do = func(ctx context.Context, claim *ipamv1.IPAddressClaim) (bool, error) {
			return pools.StandStill(ctx, claim, p.cluster)
		}
	}
	for _, claim := range p.claims[host.UID] {
		if settled, err := do(ctx, claim); err != nil || !settled {
			return settled, err
		}
	}
	return true, nil
}
