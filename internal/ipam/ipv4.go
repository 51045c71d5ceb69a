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

// hasIPv4 says whether an address is recorded for the host's boot NIC on its present
// network.
func (v View) hasIPv4() bool {
	return v.Hardware != nil && v.Hardware.Spec.Address != nil &&
		v.Hardware.Spec.Address.MAC == v.Host.Spec.BootMACAddress &&
		v.Hardware.Spec.Address.NetworkName == v.Host.Spec.NetworkRef.Name
}

// givesIPv4 says whether the network records IPv4 addresses: in mode Proxy another DHCP
// server gives them, and on a network with IPv6 alone nobody does.
func (v View) givesIPv4() bool {
	return v.Network.Spec.Mode != infrav1.DHCPModeProxy && v.Network.Spec.Subnet != ""
}

// needsIPv4 says whether an IPv4 address is still to be recorded.
func (v View) needsIPv4() bool { return v.givesIPv4() && !v.hasIPv4() }

// entry is an address as it is recorded.
func (v View) entry(address netip.Addr) *infrav1.RecordedAddress {
	return &infrav1.RecordedAddress{NetworkName: v.Network.Name, MAC: v.Host.Spec.BootMACAddress, IP: address.String()}
}

// isPooled says whether the network's addresses come from a pool of an IPAM provider.
func (v View) isPooled() bool { return v.Network.Spec.AddressPoolRef != nil }

// leaving says whether the address that is recorded is of a network that the host was on
// before.
func (v View) leaving() bool {
	return v.Hardware != nil && v.Hardware.Spec.Address != nil && v.Hardware.Spec.Address.NetworkName != v.Network.Name
}

// isTold says whether the host was observed to the end since its spec was last changed,
// and so since it was last put on another network.
func (v View) isTold() bool {
	ready := meta.FindStatusCondition(v.Host.Status.Conditions, infrav1.ReadyCondition)
	return ready != nil && ready.ObservedGeneration == v.Host.Generation
}

// inUse says whether a system may run with the host's address, or the agent.
func (v View) inUse() bool { return v.Host.Spec.Claim != nil || v.Host.Spec.Order != nil }

// chooseIPv4 finds an address for the boot NIC, in the network's range or from its pool.
// Where there is none it says why; then the address is not valid.
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
	if address := a.before(v, taken); address.IsValid() && a.Memory.reserveIPv4(v.Network.Name, v.Host.Spec.BootMACAddress, address, a.Clock.Now()) {
		return address, Problem{}, nil
	}
	address, err := a.Memory.takeIPv4(v.Network, v.Host.Spec.BootMACAddress, taken, a.Clock.Now())
	if err != nil { // the range is exhausted or wrong: a person has to look
		return netip.Addr{}, Problem{Message: err.Error()}, nil
	}
	return address, Problem{}, nil
}

// before finds the address that the boot NIC had, if its record is lost: the one that this
// process has seen recorded last, or one of the network's range that the system in use has
// reported. It must still be free; otherwise it is not valid.
func (a *Allocator) before(v View, taken map[netip.Addr]bool) netip.Addr {
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

// taken are the addresses that this host may not be given, by the index of what is
// recorded: others' recorded ones, those that the claims of others have given to their
// systems, those that other networks of the same segment (one in mode Proxy) reserve, and
// those by which control planes are reached. What the host was given a moment ago is
// forgotten if it is such a one by now.
func (a *Allocator) taken(ctx context.Context, v View, by string) (map[netip.Addr]bool, error) {
	held, err := index.HoldersOfNetwork(ctx, a.Client, by, v.Network.Name)
	if err != nil {
		return nil, err
	}
	taken := held.Taken(client.ObjectKeyFromObject(v.Host))
	networks := &infrav1.IngotNetworkList{}
	if err := a.Client.List(ctx, networks, client.UnsafeDisableDeepCopy); err != nil { // nothing of it is changed
		return nil, fmt.Errorf("networks: %w", err)
	}
	for i := range networks.Items {
		other := &networks.Items[i]
		if other.Name == v.Network.Name {
			continue
		}
		for _, kept := range other.Spec.Reservations {
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
	// The pools of two namespaces may give one address at once, and the cache shows
	// neither record yet.
	if !a.Memory.reserveIPv4(v.Network.Name, v.Host.Spec.BootMACAddress, answer.Address, a.Clock.Now()) {
		return netip.Addr{}, Problem{Reason: infrav1.ReasonAddressConflict,
			Message: fmt.Sprintf("pool %s gave %s, which was given to another host of IngotNetwork %s, or to its system, a moment ago: two pools, or a pool and networkData, have the same addresses",
				v.Network.Spec.AddressPoolRef.Name, answer.Address, v.Network.Name)}, nil
	}
	return answer.Address, Problem{}, pools.Release(ctx, v.Host, v.Network.Name)
}

// leave gives up the address that a free host has on the network that it was on before,
// where it gets none in its place that would, in mode Proxy or with IPv6 alone: what is recorded, and the
// claims by which pools hold an address for it, or were asked for one and had not answered.
func (a *Allocator) leave(ctx context.Context, v View) (View, error) {
	if v.givesIPv4() || v.inUse() || !v.Host.DeletionTimestamp.IsZero() || !v.leaving() && v.isTold() {
		return v, nil
	}
	if err := (pool.Pools{Client: a.Client}).Release(ctx, v.Host, ""); err != nil {
		return v, err
	}
	if !v.leaving() {
		return v, nil
	}
	facts := v.Hardware.DeepCopy()
	facts.Spec.Address = nil
	err := a.Client.Patch(ctx, facts, client.MergeFromWithOptions(v.Hardware, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return v, nil // the next reconcile tries again
	case err != nil:
		return v, fmt.Errorf("giving up the address of %s: %w", client.ObjectKeyFromObject(v.Host), err)
	}
	v.Hardware = facts
	return v, nil
}

// isLost looks whether the pool still holds the recorded address for the host. A claim
// that was deleted is made again, since the pool would give the address away. The address
// of a free host is then the pool's new choice; one in use keeps what it has, which is the
// only one that its system knows, and people are told.
func (a *Allocator) isLost(ctx context.Context, v View) (bool, error) {
	if !v.isPooled() || !v.hasIPv4() || !v.Host.DeletionTimestamp.IsZero() {
		return false, nil
	}
	answer, err := pool.Pools{Client: a.Client}.Claim(ctx, v.Host, v.Network)
	if err != nil {
		return false, err
	}
	recorded := v.Hardware.Spec.Address.IP
	if answer.Made {
		a.Warn(v.Host, infrav1.ReasonAddressClaimLost, fmt.Sprintf("There was no IPAddressClaim for %s, which the host has of this network: it was deleted, or the network had a range of its own before. The pool may give the address to another machine. "+
			"Ingot has made a claim; a host in use keeps its address meanwhile, a free one gets what the pool gives now. Have the pool hold %s back until the host is released", recorded, recorded))
	}
	a.tellOther(v, recorded, answer)
	// In a namespace that is being deleted the pool holds nothing any more, and the host is
	// cleaned with the address that it has (I23).
	final := answer.Reason == infrav1.ReasonAddressPoolUnusable || answer.Reason == infrav1.ReasonNamespaceTerminating
	return !v.inUse() && !final && answer.Address.String() != recorded, nil
}

// tellOther tells once that the pool holds something else for a host in use than it has:
// its claim was made again, or answered anew on the target of a move.
func (a *Allocator) tellOther(v View, recorded string, answer pool.Answer) {
	other := ""
	switch {
	case !v.inUse():
	case answer.Address.IsValid() && answer.Address.String() != recorded:
		other = fmt.Sprintf("pool %s holds %s for it", v.Network.Spec.AddressPoolRef.Name, answer.Address)
	case answer.Reason == infrav1.ReasonAddressConflict || answer.Reason == infrav1.ReasonAddressPoolUnusable:
		other = answer.Problem
	case !answer.Address.IsValid():
		return // it has not answered
	}
	if a.Memory.isNews(v.Host.UID, other) && other != "" {
		a.Warn(v.Host, infrav1.ReasonAddressClaimLost, fmt.Sprintf("The host is in use and keeps %s, which its pool may give to another machine: %s. Have the pool hold %s back until the host is released", recorded, other, recorded))
	}
}
