// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"net/netip"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// needsIPv6 reports whether the network assigns IPv6 addresses, and none of its subnet is recorded for
// the boot NIC.
func (v View) needsIPv6() bool {
	ipv6 := v.Network.Spec.IPv6
	if ipv6 == nil || ipv6.Mode == infrav1.DHCPv6ModeStateless {
		return false
	}
	if v.Hardware == nil || v.Hardware.Spec.IPv6Address == nil {
		return true
	}
	recorded := v.Hardware.Spec.IPv6Address
	subnet, subnetErr := netip.ParsePrefix(ipv6.Subnet)
	address, addressErr := netip.ParseAddr(recorded.IP)
	return recorded.MAC != v.Host.Spec.BootMACAddress || recorded.NetworkName != v.Network.Name ||
		subnetErr != nil || addressErr != nil || !subnet.Contains(address)
}

// recordIPv6 allocates and records an IPv6 address.
func (a *Allocator) recordIPv6(ctx context.Context, v View) (Problem, error) {
	taken, err := a.taken(ctx, v, index.HardwareByIPv6Network)
	if err != nil {
		return Problem{}, err
	}
	address, err := a.Memory.takeIPv6(v.Network, v.Host.Spec.BootMACAddress, taken, a.Clock.Now())
	if err != nil { // the range is exhausted or invalid
		return Problem{Message: err.Error()}, nil
	}
	return Problem{}, a.write(ctx, v, func(facts *infrav1.IngotHardwareSpec) { facts.IPv6Address = v.entry(address) })
}
