// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// MachineClaimName is the name of the claim of a machine for an address of its
// networkData. It says the place, which never changes: networkData is immutable. The
// hash at its end tells apart what reads the same: link b-c of machine a, and link c of
// machine a-b.
func MachineClaimName(machine string, place networkdata.Place) string {
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s/%s/%d", machine, place.Link, place.Index) // it never fails, and no name has a slash
	return bounded(fmt.Sprintf("%s-%s-%d-%08x", machine, place.Link, place.Index, sum.Sum32()))
}

// ForMachine is a machine that asks for the addresses of its networkData.
type ForMachine struct {
	Machine *infrav1.IngotMachine
	// Cluster that it is of, by name.
	Cluster string
	// Networks by their names: what they keep, and who has what of theirs, is nothing
	// that a pool may give.
	Networks map[string]infrav1.IngotNetworkSpec
	// Endpoints of control planes are nothing that a pool may give either. IngotCluster is
	// the machine's own.
	Endpoints    addressuse.Endpoints
	IngotCluster types.NamespacedName
}

func (m ForMachine) ask(place networkdata.PoolPlace) ask {
	return ask{owner: m.Machine, kind: "IngotMachine", name: MachineClaimName(m.Machine.Name, place.Place), pool: place.Pool,
		cluster: m.Cluster, filter: m.Machine.Labels[clusterv1.WatchLabel],
		absent: "networkData of " + m.Machine.Name + " names a pool", wrong: "poolRef in networkData"}
}

// ClaimForMachine returns the address that a pool gives a machine for a place of its
// networkData, and makes the claim where there is none. The IngotMachine owns the claim:
// it moves with it, and is released with it, which is after its host was confirmed off
// (I7). The API server's failures are errors; all else is a Problem of the answer.
func (p Pools) ClaimForMachine(ctx context.Context, m ForMachine, place networkdata.PoolPlace) (networkdata.Given, Answer, error) {
	claim, answer, err := p.claimOf(ctx, m, place)
	switch {
	case claim == nil:
		return networkdata.Given{}, answer, err
	case claim.Status.AddressRef.Name == "":
		return none(waiting(claim))
	}
	return p.readForMachine(ctx, m, claim)
}

// KeepForMachine sees to it that the claim of an address that a system has been given
// goes on holding it, and makes it again where somebody deleted it. A Problem says why
// the pool may give the address to somebody else.
func (p Pools) KeepForMachine(ctx context.Context, m ForMachine, place networkdata.PoolPlace, has netip.Addr) (Answer, error) {
	claim, answer, err := p.claimOf(ctx, m, place)
	switch {
	case claim == nil:
		return answer, err
	case claim.Status.AddressRef.Name == "":
		answer := waiting(claim)
		answer.Unanswered = claim.CreationTimestamp.Time
		return answer, nil
	}
	given := &ipamv1.IPAddress{}
	err = p.Client.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}, given)
	if client.IgnoreNotFound(err) != nil {
		return Answer{}, fmt.Errorf("address %s: %w", claim.Status.AddressRef.Name, err)
	}
	if err != nil {
		return problem(infrav1.ReasonWaitingForAddress, "IPAddress %s of IPAddressClaim %s is not there", claim.Status.AddressRef.Name, claim.Name), nil
	}
	if address, err := netip.ParseAddr(given.Spec.Address); err != nil || address != has {
		return problem(infrav1.ReasonAddressConflict, "pool %s gave %s to IPAddressClaim %s", claim.Spec.PoolRef.Name, given.Spec.Address, claim.Name), nil
	}
	return Answer{Address: has}, nil
}

// claimOf is the machine's claim; nil: there is none yet, or it is somebody else's.
func (p Pools) claimOf(ctx context.Context, m ForMachine, place networkdata.PoolPlace) (*ipamv1.IPAddressClaim, Answer, error) {
	a := m.ask(place)
	claim, answer, err := p.find(ctx, a)
	switch {
	case claim == nil:
		return nil, answer, err
	case claim.Spec.PoolRef != a.want() && !metav1.IsControlledBy(claim, m.Machine):
		return nil, strange(a, claim), nil
	case claim.Spec.PoolRef != a.want():
		return nil, problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s is of another pool than networkData names; if nothing uses its address, delete it, and Ingot makes it anew", claim.Name), nil
	}
	if answer, err := p.own(ctx, a, claim); err != nil || answer.Problem != "" {
		return nil, answer, err
	}
	return claim, Answer{}, nil
}

func none(answer Answer) (networkdata.Given, Answer, error) { return networkdata.Given{}, answer, nil }

// readForMachine checks the address: what a pool gives is somebody else's choice.
func (p Pools) readForMachine(ctx context.Context, m ForMachine, claim *ipamv1.IPAddressClaim) (networkdata.Given, Answer, error) {
	given, answer, err := p.given(ctx, claim)
	if given == nil {
		return networkdata.Given{}, answer, err
	}
	pool := claim.Spec.PoolRef.Name
	address, err := netip.ParseAddr(given.Spec.Address)
	prefix := netip.PrefixFrom(address, int(ptr.Deref(given.Spec.Prefix, -1)))
	if err != nil || !prefix.IsValid() {
		return none(problem(infrav1.ReasonAddressPoolUnusable, "pool %s gave %q with prefix length %d, which is no address: correct the pool, then delete IPAddressClaim %s",
			pool, given.Spec.Address, ptr.Deref(given.Spec.Prefix, 0), claim.Name))
	}
	out := networkdata.Given{Address: prefix, From: "pool " + pool}
	if given.Spec.Gateway != "" {
		if out.Gateway, err = netip.ParseAddr(given.Spec.Gateway); err != nil || out.Gateway.Is4() != address.Is4() {
			return none(problem(infrav1.ReasonAddressPoolUnusable, "pool %s gave %s with gateway %q, which is no address of its family: correct the pool, then delete IPAddressClaim %s",
				pool, address, given.Spec.Gateway, claim.Name))
		}
	}
	answer, err = p.isFree(ctx, m, claim, address)
	if err != nil || answer.Problem != "" {
		return networkdata.Given{}, answer, err
	}
	return out, Answer{Address: address}, nil
}

// isFree refuses what IngotNetworks keep for something else, what hosts have there, and
// the endpoints of control planes there; anywhere that of the machine's own Cluster, and
// what another system has of the same pool.
func (p Pools) isFree(ctx context.Context, m ForMachine, claim *ipamv1.IPAddressClaim, address netip.Addr) (Answer, error) {
	known, clusters := addressuse.OnAny(m.Networks, address), m.Endpoints[address]
	if slices.Contains(clusters, m.IngotCluster) || known && len(clusters) > 0 {
		return reached(claim, address, inventory.ListClusters(m.Machine.Namespace, clusters)), nil
	}
	if !known { // nobody here knows that network, but the pool's addresses are each one place
		others, err := p.running(ctx, m, claim, address)
		if err != nil || len(others) == 0 {
			return Answer{}, err
		}
		return stillHad(claim, address, inventory.ListHosts(m.Machine.Namespace, others)), nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Networks)) {
		if addressuse.Of(m.Networks[name], address) != addressuse.None {
			return kept(claim, address, name), nil
		}
	}
	held, err := index.HoldersOf(ctx, p.Client, address)
	if err != nil {
		return Answer{}, err
	}
	others := held.Besides(address, client.ObjectKey{})
	if len(others) == 0 {
		return Answer{}, nil
	}
	return taken(claim, address, inventory.ListHosts(m.Machine.Namespace, others)), nil
}
