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
	"github.com/ingot-metal/ingot/controllers/hardware"
	"github.com/ingot-metal/ingot/controllers/index"
	"github.com/ingot-metal/ingot/inventory"
)

// needsIPv6 says whether an IPv6 address is still to be recorded for the boot NIC: on
// a network that gives some, where none of its subnet is.
func needsIPv6(host *infrav1.IngotHost, facts *infrav1.IngotHardware, network *infrav1.IngotNetwork) bool {
	ipv6 := network.Spec.IPv6
	if ipv6 == nil || ipv6.Mode == infrav1.DHCPv6ModeStateless {
		return false
	}
	if facts == nil || facts.Spec.IPv6Address == nil {
		return true
	}
	recorded := facts.Spec.IPv6Address
	subnet, subnetErr := netip.ParsePrefix(ipv6.Subnet)
	address, addressErr := netip.ParseAddr(recorded.IP)
	return recorded.MAC != host.Spec.BootMACAddress || recorded.NetworkName != network.Name ||
		subnetErr != nil || addressErr != nil || !subnet.Contains(address)
}

// recordIPv6 takes a free address of the network's IPv6 range and records it, as
// recordAddress does the IPv4 one.
func (r *Reconciler) recordIPv6(ctx context.Context, host *infrav1.IngotHost, seen *observation) (problem string, _ error) {
	recorded := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, recorded, client.MatchingFields{index.HardwareByIPv6Network: seen.network.Name}); err != nil {
		return "", fmt.Errorf("recorded IPv6 addresses: %w", err)
	}
	taken := map[netip.Addr]bool{}
	for i := range recorded.Items {
		if address, err := netip.ParseAddr(recorded.Items[i].Spec.IPv6Address.IP); err == nil {
			taken[address] = true
		}
	}
	address, err := r.addresses6.give(seen.network.Name, host.Spec.BootMACAddress, taken, r.Clock.Now(), func(taken map[netip.Addr]bool) (netip.Addr, error) {
		return inventory.AllocateIPv6(*seen.network.Spec.IPv6, taken, host.Spec.BootMACAddress)
	})
	if err != nil { // the range is exhausted or wrong: a person has to look
		return err.Error(), nil
	}
	entry := &infrav1.RecordedAddress{NetworkName: seen.network.Name, MAC: host.Spec.BootMACAddress, IP: address.String()}
	if seen.hardware == nil {
		facts, newErr := hardware.New(host, r.Client.Scheme())
		if newErr != nil {
			return "", newErr
		}
		facts.Spec.IPv6Address = entry
		err = r.Client.Create(ctx, facts)
	} else {
		facts := seen.hardware.DeepCopy()
		facts.Spec.IPv6Address = entry
		err = r.Client.Patch(ctx, facts, client.MergeFromWithOptions(seen.hardware, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return "", errStale
	}
	if err != nil {
		return "", fmt.Errorf("recording an IPv6 address for %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return "", nil
}
