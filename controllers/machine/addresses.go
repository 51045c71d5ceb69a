// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/pool"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// bondMemory is how long the addresses are remembered that a claim is being written with:
// longer than a cache lags behind.
const bondMemory = 15 * time.Second

// newClaim is for how long a claim that nobody has answered says nothing of its address:
// after clusterctl move it has no status before its provider has looked at it.
const newClaim = time.Minute

// maxTold bounds how many addresses a condition tells of.
const maxTold = 3

// bonds remembers which addresses claims were written with, until the cache shows them to
// the machines that are bonded at the same time. It may be lost: what the cache shows is
// looked at besides. The zero value is ready.
type bonds struct {
	mu     sync.Mutex
	recent map[netip.Addr]recentBond
}

type recentBond struct {
	machine types.UID
	until   time.Time
}

// reserve keeps addresses for a machine, all or none; false: one, which it names, is
// another's.
func (b *bonds) reserve(machine types.UID, addresses []netip.Addr, now time.Time) (taken netip.Addr, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, bond := range b.recent {
		if !now.Before(bond.until) {
			delete(b.recent, address)
		}
	}
	for _, address := range addresses {
		if bond, there := b.recent[address]; there && bond.machine != machine {
			return address, false
		}
	}
	if b.recent == nil {
		b.recent = map[netip.Addr]recentBond{}
	}
	for _, address := range addresses {
		b.recent[address] = recentBond{machine: machine, until: now.Add(bondMemory)}
	}
	return netip.Addr{}, true
}

// release gives back what a machine has reserved and was not bonded with.
func (b *bonds) release(machine types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.recent, func(_ netip.Addr, bond recentBond) bool { return bond.machine == machine })
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
		answer, err := pool.Pools{Client: r.Client}.KeepForMachine(ctx, s.asking(nil), place, has)
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
		message := fmt.Sprintf("The system of the machine has %s; have pool %s hold it back until the Machine is replaced, since it may give it to another machine: %s",
			has, place.Pool.Name, answer.Problem)
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
