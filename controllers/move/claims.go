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

// pauseClaims pauses or unpauses the host's IPAddressClaims before the host. clusterctl creates
// them on the target before the IPAddresses that they own, so that a provider would assign
// another address in between. An unpaused host reads its claim at once. It returns false after a
// conflict.
func (p *pass) pauseClaims(ctx context.Context, host *infrav1.IngotHost, change Change) (bool, error) {
	if isLeaving(host) || p.WatchFilterValue != "" && !labels.HasWatchLabel(host, p.WatchFilterValue) {
		return true, nil
	}
	pools := pool.Pools{Client: p.Client}
	do := pools.ResumeClaim
	if _, paused := host.Annotations[infrav1.MovePausedAnnotation]; (paused || change.Pause) && !change.Lift {
		do = func(ctx context.Context, claim *ipamv1.IPAddressClaim) (bool, error) {
			return pools.PauseClaim(ctx, claim, p.cluster)
		}
	}
	for _, claim := range p.claims[host.UID] {
		if done, err := do(ctx, claim); err != nil || !done {
			return done, err
		}
	}
	return true, nil
}
