// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/index"
	"github.com/ingot-metal/ingot/controllers/pool"
)

// isPooled says whether the network's addresses come from a pool of an IPAM provider.
func isPooled(network *infrav1.IngotNetwork) bool { return network.Spec.AddressPoolRef != nil }

// chooseAddress finds an IPv4 address for the boot NIC, in the network's range or from
// its pool. Where there is none it says so in the observation; then the address is not
// valid.
func (r *Reconciler) chooseAddress(ctx context.Context, host *infrav1.IngotHost, seen *observation) (netip.Addr, error) {
	if isPooled(seen.network) {
		pools := pool.Pools{Client: r.Client}
		answer, err := pools.Claim(ctx, host, seen.network)
		if err != nil {
			return netip.Addr{}, err
		}
		seen.AddressReason, seen.AddressProblem = answer.Reason, answer.Problem
		if !answer.Address.IsValid() {
			return netip.Addr{}, nil
		}
		// The pools of two namespaces may give one address at once, and the cache shows
		// neither record yet.
		if !r.addresses.reserve(seen.network.Name, host.Spec.BootMACAddress, answer.Address, r.Clock.Now()) {
			seen.AddressReason = infrav1.ReasonAddressConflict
			seen.AddressProblem = fmt.Sprintf("pool %s gave %s, which was given to another host of IngotNetwork %s a moment ago: two pools have the same addresses",
				seen.network.Spec.AddressPoolRef.Name, answer.Address, seen.network.Name)
			return netip.Addr{}, nil
		}
		return answer.Address, pools.Release(ctx, host, seen.network.Name)
	}
	if err := r.leavePool(ctx, host, seen); err != nil {
		return netip.Addr{}, err
	}
	recorded := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, recorded, client.MatchingFields{index.HardwareByNetwork: seen.network.Name}); err != nil {
		return netip.Addr{}, fmt.Errorf("recorded addresses: %w", err)
	}
	address, err := r.addresses.take(seen.network, host.Spec.BootMACAddress, recorded.Items, r.Clock.Now())
	if err != nil { // the range is exhausted or wrong: a person has to look
		seen.AddressProblem = err.Error()
		return netip.Addr{}, nil
	}
	return address, nil
}

// leavePool lets the claim go by which the host holds an address on the network that it
// was on before.
func (r *Reconciler) leavePool(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if seen.hardware == nil || seen.hardware.Spec.Address == nil || seen.hardware.Spec.Address.NetworkName == seen.network.Name {
		return nil
	}
	return pool.Pools{Client: r.Client}.Leave(ctx, host, seen.hardware.Spec.Address.NetworkName)
}

// leaveAddress gives up the address that a free host has on the network that it was on
// before, where it gets none in its place that would: in mode Proxy.
func (r *Reconciler) leaveAddress(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	stays := seen.hardware == nil || seen.hardware.Spec.Address == nil || seen.hardware.Spec.Address.NetworkName == seen.network.Name
	if stays || inUse(host) || seen.Deleting || seen.network.Spec.Mode != infrav1.DHCPModeProxy {
		return nil
	}
	if err := r.leavePool(ctx, host, seen); err != nil {
		return err
	}
	facts := seen.hardware.DeepCopy()
	facts.Spec.Address = nil
	err := r.Client.Patch(ctx, facts, client.MergeFromWithOptions(seen.hardware, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return nil // the next reconcile tries again
	case err != nil:
		return fmt.Errorf("giving up the address of %s: %w", keyOf(host), err)
	}
	seen.hardware = facts
	return nil
}

// inUse says whether a system may run with the host's address, or the agent.
func inUse(host *infrav1.IngotHost) bool { return host.Spec.Claim != nil || host.Spec.Order != nil }

// observePool looks whether the pool still holds the recorded address for the host. A
// claim that was deleted is made again, since the pool would give the address away. The
// address of a free host is then the pool's new choice; one in use keeps what it has,
// which is the only one that its system knows.
func (r *Reconciler) observePool(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if !isPooled(seen.network) || !hasAddress(host, seen.hardware) || seen.Deleting {
		return nil
	}
	answer, err := pool.Pools{Client: r.Client}.Claim(ctx, host, seen.network)
	if err != nil {
		return err
	}
	recorded := seen.hardware.Spec.Address.IP
	if answer.Made {
		r.event(host, infrav1.ReasonAddressClaimLost, fmt.Sprintf("The IPAddressClaim that held %s was deleted: the pool may give the address to another machine. "+
			"Ingot makes it again; a host in use keeps its address meanwhile, a free one gets what the pool gives now. Have the pool hold %s back until the host is released", recorded, recorded))
	}
	seen.addressLost = !inUse(host) && answer.Reason != infrav1.ReasonAddressPoolUnusable && answer.Address.String() != recorded
	return nil
}
