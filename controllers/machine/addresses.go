// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// newClaim is for how long a claim that nobody has answered says nothing of its address:
// after clusterctl move it has no status before its provider has looked at it.
const newClaim = time.Minute

// maxTold bounds how many addresses a condition tells of.
const maxTold = 3

// memory is where it stands which addresses were given a moment ago.
func (r *Reconciler) memory() *ipam.Memory {
	if r.Addresses != nil {
		return r.Addresses
	}
	return &r.addresses
}

// keepAddresses shows the bond, and looks after the IPAddressClaims of what the machine's
// system was given by pools: one that somebody deleted is made again, and people are told
// where a pool may give the address of a running server to the next one.
func (r *Reconciler) keepAddresses(ctx context.Context, s *scope) (outcome, error) {
	data, network := s.machine.Spec.NetworkData, s.host.Spec.Claim.Network
	if data == nil || network == nil {
		s.claimed("")
		return next, nil
	}
	assigned := networkdata.Assigned(data, network.Addresses)
	var told []string
	isNew := false
	for _, place := range networkdata.PoolPlaces(data) {
		has, known := assigned[place.Place]
		if !known {
			continue
		}
		answer, err := pool.Pools{Client: r.Client}.KeepForMachine(ctx, s.asking(nil, nil), place, has)
		if err != nil {
			return next, err
		}
		if answer.Problem == "" {
			continue
		}
		if !answer.Made && !s.lostAddress() && r.Clock.Now().Before(answer.Unanswered.Add(r.waits().Answer)) {
			isNew = true
			continue
		}
		message := fmt.Sprintf("The system has %s; have pool %s hold it back until the Machine is replaced: %s", has, place.Pool.Name, answer.Problem)
		if told = append(told, message); answer.Made {
			r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonAddressClaimLost, action, "An IPAddressClaim was deleted, and is made again. %s", message)
		}
	}
	if more := len(told) - maxTold; more > 0 {
		told = append(told[:maxTold], fmt.Sprintf("and so for %d more addresses", more))
	}
	s.claimed(strings.Join(told, "; "))
	if isNew || len(told) > 0 { // addresses are not watched, nor is the clock
		return nextAndAgain(wait.Jitter(r.waits().Placement, retryJitter)), nil
	}
	return next, nil
}

// lostAddress says whether people were told already that an address may be given away.
func (s *scope) lostAddress() bool {
	return conditions.GetReason(s.machine, infrav1.MachineHostClaimedCondition) == infrav1.ReasonAddressClaimLost
}
