// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"encoding/binary"
	"net/netip"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// maxTotal is the largest number of addresses that is counted. An IPv6 range may have more.
const maxTotal = 1_000_000_000_000_000

// UsageIPv4 counts the addresses of spec.range. taken has the addresses that hosts, endpoints and
// other networks have; addresses outside the range do not count. For a network with an address pool
// it counts only those of taken in the subnet. nil: Ingot gives no IPv4 addresses on the network.
func UsageIPv4(network infrav1.IngotNetworkSpec, taken map[netip.Addr]bool) *infrav1.AddressUsage {
	if network.Subnet == "" || network.Mode == infrav1.DHCPModeProxy {
		return nil
	}
	if network.AddressPoolRef != nil {
		used := int64(0)
		for address := range taken {
			if contains(network.Subnet, address) {
				used++
			}
		}
		return &infrav1.AddressUsage{Used: &used}
	}
	kept := append([]string{network.Gateway}, slices.Concat(network.DNSServers, network.NTPServers, network.Relays)...)
	for _, route := range network.Routes {
		kept = append(kept, route.Gateway)
	}
	for _, lease := range network.StaticLeases {
		kept = append(kept, lease.IP)
	}
	return usage(network.Range.Start, network.Range.End, kept, taken)
}

// UsageIPv6 counts the addresses of spec.ipv6.range, as UsageIPv4. nil: Ingot gives no IPv6 addresses
// on the network.
func UsageIPv6(network infrav1.IngotNetworkSpec, taken map[netip.Addr]bool) *infrav1.AddressUsage {
	ipv6 := network.IPv6
	if ipv6 == nil || ipv6.Mode == infrav1.DHCPv6ModeStateless {
		return nil
	}
	return usage(ipv6.Range.Start, ipv6.Range.End, slices.Concat(ipv6.DNSServers, ipv6.NTPServers, ipv6.Relays), taken)
}

// usage counts the addresses from start to end, both included. nil: it is not a range.
func usage(start, end string, kept []string, taken map[netip.Addr]bool) *infrav1.AddressUsage {
	first, firstErr := netip.ParseAddr(start)
	last, lastErr := netip.ParseAddr(end)
	if firstErr != nil || lastErr != nil || first.BitLen() != last.BitLen() || last.Less(first) {
		return nil
	}
	inRange := map[netip.Addr]bool{}
	for address := range taken {
		if between(start, end, address) {
			inRange[address] = true
		}
	}
	for _, text := range kept {
		if address, err := netip.ParseAddr(text); err == nil && between(start, end, address) {
			inRange[address] = true
		}
	}
	total, used := size(first, last), int64(len(inRange))
	return &infrav1.AddressUsage{Total: &total, Used: &used, Free: new(max(total-used, 0))}
}

// size returns the number of addresses from first to last, at most maxTotal.
func size(first, last netip.Addr) int64 {
	a, b := first.As16(), last.As16()
	difference := binary.BigEndian.Uint64(b[8:]) - binary.BigEndian.Uint64(a[8:])
	if [8]byte(a[:8]) != [8]byte(b[:8]) || difference >= maxTotal {
		return maxTotal
	}
	return int64(difference) + 1
}
