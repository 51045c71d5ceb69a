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

// MachineClaimName returns the name of a machine's claim for an address of its networkData, which is
// immutable. The hash distinguishes link b-c of machine a from link c of machine a-b.
func MachineClaimName(machine string, place networkdata.Place) string {
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s/%s/%d", machine, place.Link, place.Index) // no name contains a slash
	return bounded(fmt.Sprintf("%s-%s-%d-%08x", machine, place.Link, place.Index, sum.Sum32()))
}

// MachineRequest is a machine that needs the addresses of its networkData.
type MachineRequest struct {
	Machine *infrav1.IngotMachine
	// Cluster is the name of its Cluster.
	Cluster string
	// Networks are all networks by name. A pool must not assign what they keep, or what hosts have
	// there.
	Networks map[string]infrav1.IngotNetworkSpec
	// Endpoints are the control plane endpoints, which a pool must not assign either. IngotCluster
	// is the machine's own.
	Endpoints    addressuse.Endpoints
	IngotCluster types.NamespacedName
}

func (m MachineRequest) ask(place networkdata.PoolPlace) ask {
	return ask{owner: m.Machine, kind: "IngotMachine", name: MachineClaimName(m.Machine.Name, place.Place), pool: place.Pool,
		cluster: m.Cluster, filter: m.Machine.Labels[clusterv1.WatchLabel],
		absent: "networkData of " + m.Machine.Name + " names a pool", field: "poolRef in networkData"}
}

// ClaimForMachine returns the address that a pool assigns to a machine for a place of its networkData,
// and creates the claim if needed. The IngotMachine owns the claim: it moves and is deleted with the
// machine, after its host was confirmed off (I7). It returns errors of the API server only; other
// failures are a Problem.
func (p Pools) ClaimForMachine(ctx context.Context, m MachineRequest, place networkdata.PoolPlace) (networkdata.Given, Answer, error) {
	claim, answer, err := p.claimOf(ctx, m, place)
	switch {
	case claim == nil:
		return networkdata.Given{}, answer, err
	case claim.Status.AddressRef.Name == "":
		return none(waiting(claim))
	}
	return p.readForMachine(ctx, m, claim)
}

// KeepForMachine makes sure that the claim still holds an address that a system has, and creates a
// deleted claim again. A Problem says why the pool may assign the address to others.
func (p Pools) KeepForMachine(ctx context.Context, m MachineRequest, place networkdata.PoolPlace, has netip.Addr) (Answer, error) {
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
		return Answer{}, fmt.Errorf("read address %s: %w", claim.Status.AddressRef.Name, err)
	}
	if err != nil {
		return problem(infrav1.ReasonWaitingForAddress, "IPAddress %s of IPAddressClaim %s does not exist", claim.Status.AddressRef.Name, claim.Name), nil
	}
	if address, err := netip.ParseAddr(given.Spec.Address); err != nil || address != has {
		return problem(infrav1.ReasonAddressConflict, "pool %s assigned %s to IPAddressClaim %s", claim.Spec.PoolRef.Name, given.Spec.Address, claim.Name), nil
	}
	return Answer{Address: has}, nil
}

// claimOf returns the machine's claim, or nil if there is none yet or it belongs to another owner.
func (p Pools) claimOf(ctx context.Context, m MachineRequest, place networkdata.PoolPlace) (*ipamv1.IPAddressClaim, Answer, error) {
	a := m.ask(place)
	claim, answer, err := p.find(ctx, a)
	switch {
	case claim == nil:
		return nil, answer, err
	case claim.Spec.PoolRef != a.want() && !metav1.IsControlledBy(claim, m.Machine):
		return nil, foreign(a, claim), nil
	case claim.Spec.PoolRef != a.want():
		return nil, problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s names another pool than networkData; if nothing uses its address, delete it, and Ingot creates it again", claim.Name), nil
	}
	if answer, err := p.own(ctx, a, claim); err != nil || answer.Problem != "" {
		return nil, answer, err
	}
	return claim, Answer{}, nil
}

func none(answer Answer) (networkdata.Given, Answer, error) { return networkdata.Given{}, answer, nil }

// readForMachine reads and checks the address.
func (p Pools) readForMachine(ctx context.Context, m MachineRequest, claim *ipamv1.IPAddressClaim) (networkdata.Given, Answer, error) {
	given, answer, err := p.given(ctx, claim)
	if given == nil {
		return networkdata.Given{}, answer, err
	}
	pool := claim.Spec.PoolRef.Name
	address, err := netip.ParseAddr(given.Spec.Address)
	prefix := netip.PrefixFrom(address, int(ptr.Deref(given.Spec.Prefix, -1)))
	if err != nil || !prefix.IsValid() {
		return none(problem(infrav1.ReasonAddressPoolUnusable, "pool %s assigned %q with prefix length %d, which is invalid: correct the pool, then delete IPAddressClaim %s",
			pool, given.Spec.Address, ptr.Deref(given.Spec.Prefix, 0), claim.Name))
	}
	out := networkdata.Given{Address: prefix, From: "pool " + pool}
	if given.Spec.Gateway != "" {
		if out.Gateway, err = netip.ParseAddr(given.Spec.Gateway); err != nil || out.Gateway.Is4() != address.Is4() {
			return none(problem(infrav1.ReasonAddressPoolUnusable, "pool %s assigned %s with gateway %q, which is not an address of the same family: correct the pool, then delete IPAddressClaim %s",
				pool, address, given.Spec.Gateway, claim.Name))
		}
	}
	answer, err = p.isFree(ctx, m, claim, address)
	if err != nil || answer.Problem != "" {
		return networkdata.Given{}, answer, err
	}
	return out, Answer{Address: address}, nil
}

// isFree rejects addresses that IngotNetworks keep or that hosts have there, and control plane endpoints
// there. Outside of the IngotNetworks it rejects the endpoint of the machine's own Cluster, and
// addresses that another system has from the same pool.
func (p Pools) isFree(ctx context.Context, m MachineRequest, claim *ipamv1.IPAddressClaim, address netip.Addr) (Answer, error) {
	known, clusters := addressuse.OnAny(m.Networks, address), m.Endpoints[address]
	if slices.Contains(clusters, m.IngotCluster) || known && len(clusters) > 0 {
		return isEndpoint(claim, address, inventory.ListClusters(m.Machine.Namespace, clusters)), nil
	}
	if !known { // no IngotNetwork has the address, but each address of a pool exists once
		others, err := p.running(ctx, m, claim, address)
		if err != nil || len(others) == 0 {
			return Answer{}, err
		}
		return inUse(claim, address, inventory.ListHosts(m.Machine.Namespace, others)), nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Networks)) {
		if addressuse.Of(m.Networks[name], address) != addressuse.None {
			return isKeptByNetwork(claim, address, name), nil
		}
	}
	held, err := index.OwnersOf(ctx, p.Client, address)
	if err != nil {
		return Answer{}, err
	}
	others := held.OwnersExcept(address, client.ObjectKey{})
	if len(others) == 0 {
		return Answer{}, nil
	}
	return isTaken(claim, address, inventory.ListHosts(m.Machine.Namespace, others)), nil
}
