// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"maps"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/inventory"
)

// hasIPv4 reports whether an address is recorded for the host's boot NIC on its network.
func (v View) hasIPv4() bool {
	return v.Hardware != nil && v.Hardware.Spec.Address != nil &&
		v.Hardware.Spec.Address.MAC == v.Host.Spec.BootMACAddress &&
		v.Hardware.Spec.Address.NetworkName == v.Host.Spec.NetworkRef.Name
}

// assignsIPv4 reports whether Ingot assigns IPv4 addresses on the network. It does not in mode Proxy,
// where another DHCP server does, and on an IPv6-only network.
func (v View) assignsIPv4() bool {
	return v.Network.Spec.Mode != infrav1.DHCPModeProxy && v.Network.Spec.Subnet != ""
}

func (v View) needsIPv4() bool { return v.assignsIPv4() && !v.hasIPv4() }
func (v View) entry(address netip.Addr) *infrav1.RecordedAddress {
	return &infrav1.RecordedAddress{NetworkName: v.Network.Name, MAC: v.Host.Spec.BootMACAddress, IP: address.String()}
}

// isPooled reports whether the network's addresses come from a pool of an IPAM provider.
func (v View) isPooled() bool { return v.Network.Spec.AddressPoolRef != nil }

// hasLeft reports whether the recorded address belongs to a network that the host has left.
func (v View) hasLeft() bool {
	return v.Hardware != nil && v.Hardware.Spec.Address != nil && v.Hardware.Spec.Address.NetworkName != v.Network.Name
}

// isObserved reports whether the host was fully reconciled since the last change of its spec, and so
// of its network.
func (v View) isObserved() bool {
	ready := meta.FindStatusCondition(v.Host.Status.Conditions, infrav1.ReadyCondition)
	return ready != nil && ready.ObservedGeneration == v.Host.Generation
}

// isInUse reports whether a system or the agent may use the host's address.
func (v View) isInUse() bool { return v.Host.Spec.Claim != nil || v.Host.Spec.Order != nil }

// chooseIPv4 chooses an address for the boot NIC. If there is none, it returns a zero address and the
// Problem.
func (a *Allocator) chooseIPv4(ctx context.Context, v View) (netip.Addr, Problem, error) {
	if v.isPooled() {
		return a.takeFromPool(ctx, v)
	}
	if err := (pool.Pools{Client: a.Client}).Release(ctx, v.Host, ""); err != nil {
		return netip.Addr{}, Problem{}, err
	}
	taken, err := a.taken(ctx, v, index.HardwareByNetwork)
	if err != nil {
		return netip.Addr{}, Problem{}, err
	}
	if address := a.previous(v, taken); address.IsValid() && a.Memory.reserveIPv4(v.Network.Name, v.Host.Spec.BootMACAddress, address, a.Clock.Now()) {
		return address, Problem{}, nil
	}
	address, err := a.Memory.takeIPv4(v.Network, v.Host.Spec.BootMACAddress, taken, a.Clock.Now())
	if err != nil { // the range is exhausted or invalid
		return netip.Addr{}, Problem{Message: err.Error()}, nil
	}
	return address, Problem{}, nil
}

// previous returns the address that the boot NIC had before its record was lost: the last one that this
// process has seen, or one that the running system has reported. It must be in the network's range and
// free; else the result is zero.
func (a *Allocator) previous(v View, taken map[netip.Addr]bool) netip.Addr {
	candidates := append([]string{a.Memory.last(v)}, v.Host.Status.Addresses...)
	network := v.Network.Spec
	start, startErr := netip.ParseAddr(network.Range.Start)
	end, endErr := netip.ParseAddr(network.Range.End)
	for _, text := range candidates {
		address, err := netip.ParseAddr(text)
		if err != nil || startErr != nil || endErr != nil || !address.Is4() || address.Less(start) || end.Less(address) {
			continue
		}
		network.Range = infrav1.AddressRange{Start: text, End: text}
		if free, err := inventory.AllocateAddress(network, taken, v.Host.Spec.BootMACAddress); err == nil && free == address {
			return address
		}
	}
	return netip.Addr{}
}

// taken returns the addresses that this host must not get: recorded addresses of other hosts (by the
// index by), addresses of their systems, static leases of other networks on the same segment, and
// control plane endpoints. If an endpoint was assigned to the host a moment ago, that is forgotten.
func (a *Allocator) taken(ctx context.Context, v View, by string) (map[netip.Addr]bool, error) {
	held, err := index.OwnersOfNetwork(ctx, a.Client, by, v.Network.Name)
	if err != nil {
		return nil, err
	}
	taken := held.Taken(client.ObjectKeyFromObject(v.Host))
	networks := &infrav1.IngotNetworkList{}
	if err := a.Client.List(ctx, networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	for i := range networks.Items {
		other := &networks.Items[i]
		if other.Name == v.Network.Name {
			continue
		}
		for _, kept := range other.Spec.StaticLeases {
			if address, err := netip.ParseAddr(kept.IP); err == nil && kept.MAC != v.Host.Spec.BootMACAddress {
				taken[address] = true
			}
		}
	}
	endpoints, err := index.Endpoints(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	kept := endpoints.Kept(v.Network.Spec, v.Host.Spec.BootMACAddress)
	a.Memory.withdraw(v.Host.Spec.BootMACAddress, kept)
	maps.Copy(taken, kept)
	return taken, nil
}

func (a *Allocator) takeFromPool(ctx context.Context, v View) (netip.Addr, Problem, error) {
	pools := pool.Pools{Client: a.Client}
	answer, err := pools.Claim(ctx, v.Host, v.Network)
	if err != nil || !answer.Address.IsValid() {
		return netip.Addr{}, Problem{Reason: answer.Reason, Message: answer.Problem}, err
	}
	// Pools of two namespaces may assign one address at once, before the cache shows it.
	if !a.Memory.reserveIPv4(v.Network.Name, v.Host.Spec.BootMACAddress, answer.Address, a.Clock.Now()) {
		return netip.Addr{}, Problem{Reason: infrav1.ReasonAddressConflict,
			Message: fmt.Sprintf("pool %s assigned %s, which another host of IngotNetwork %s, or its system, got a moment ago: two pools, or a pool and networkData, overlap",
				v.Network.Spec.AddressPoolRef.Name, answer.Address, v.Network.Name)}, nil
	}
	return answer.Address, Problem{}, pools.Release(ctx, v.Host, v.Network.Name)
}

// leave gives up the address of a free host on a network that it left, if its new network does not
// replace the address (mode Proxy, or IPv6 only). It removes the recorded address and the claims on
// pools.
func (a *Allocator) leave(ctx context.Context, v View) (View, error) {
	if v.assignsIPv4() || v.isInUse() || !v.Host.DeletionTimestamp.IsZero() || !v.hasLeft() && v.isObserved() {
		return v, nil
	}
	if err := (pool.Pools{Client: a.Client}).Release(ctx, v.Host, ""); err != nil {
		return v, err
	}
	if !v.hasLeft() {
		return v, nil
	}
	facts := v.Hardware.DeepCopy()
	facts.Spec.Address = nil
	err := a.Client.Patch(ctx, facts, client.MergeFromWithOptions(v.Hardware, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return v, nil // the next reconcile tries again
	case err != nil:
		return v, fmt.Errorf("remove address of host %s: %w", client.ObjectKeyFromObject(v.Host), err)
	}
	v.Hardware = facts
	return v, nil
}

// isLost reports whether a free host must get another address, because the pool no longer holds the
// recorded one. It creates a deleted claim again. A host in use keeps the address that its system uses,
// and an event warns.
func (a *Allocator) isLost(ctx context.Context, v View) (bool, error) {
	if !v.isPooled() || !v.hasIPv4() || !v.Host.DeletionTimestamp.IsZero() {
		return false, nil
	}
	answer, err := pool.Pools{Client: a.Client}.Claim(ctx, v.Host, v.Network)
	if err != nil {
		return false, err
	}
	recorded := v.Hardware.Spec.Address.IP
	if answer.Created {
		a.Warn(v.Host, infrav1.ReasonAddressClaimLost, fmt.Sprintf("Created the missing IPAddressClaim for %s. The pool may assign %s to another machine: exclude it there until the host is released. A free host gets the pool's next address.", recorded, recorded))
	}
	a.warnOther(v, recorded, answer)
	// In a namespace that is being deleted the pool holds nothing, and the host is cleaned with its
	// present address (I23).
	final := answer.Reason == infrav1.ReasonAddressPoolUnusable || answer.Reason == infrav1.ReasonNamespaceTerminating
	return !v.isInUse() && !final && answer.Address.String() != recorded, nil
}

// warnOther warns once that the pool holds another address for a host in use: the claim was created
// again, or was answered again at the target of a move.
func (a *Allocator) warnOther(v View, recorded string, answer pool.Answer) {
	other := ""
	switch {
	case !v.isInUse():
	case answer.Address.IsValid() && answer.Address.String() != recorded:
		other = fmt.Sprintf("pool %s holds %s for it", v.Network.Spec.AddressPoolRef.Name, answer.Address)
	case answer.Reason == infrav1.ReasonAddressConflict || answer.Reason == infrav1.ReasonAddressPoolUnusable:
		other = answer.Problem
	case !answer.Address.IsValid():
		return // it has not answered yet
	}
	if a.Memory.changeOther(v.Host.UID, other) && other != "" {
		a.Warn(v.Host, infrav1.ReasonAddressClaimLost, fmt.Sprintf("The host in use keeps %s, but its pool may assign it to another machine: %s. Exclude the address in the pool until the host is released.", recorded, other))
	}
}
