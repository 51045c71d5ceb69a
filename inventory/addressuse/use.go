// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"net/netip"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Use is what an IngotNetwork keeps an address for.
type Use int

// The uses.
const (
	// None: the network does not keep the address, or does not contain it.
	None Use = iota
	// Router: the gateway of the network or of a route, a relay, or an address that no
	// interface can have, such as the broadcast address.
	Router
	// Server: a DNS or NTP server. A machine may be one.
	Server
	// Reserved for an interface (spec.staticLeases).
	Reserved
	// InRange: in the range from which hosts get addresses.
	InRange
	// InDiscoveryRange: in the range for unknown clients.
	InDiscoveryRange
)

// String describes the use, to follow "is".
func (u Use) String() string {
	return map[Use]string{
		Router:           "the address of a router or relay, or of no interface,",
		Server:           "the address of a DNS or NTP server",
		Reserved:         "reserved for another interface",
		InRange:          "in the range that is given to hosts",
		InDiscoveryRange: "in the range that is lent to unknown machines",
	}[u]
}

// Contains reports whether an address is in a subnet of the network.
func Contains(network infrav1.IngotNetworkSpec, address netip.Addr) bool {
	return contains(network.Subnet, address) || network.IPv6 != nil && contains(network.IPv6.Subnet, address)
}

// OnAny reports whether an address is in a subnet of any of the networks.
func OnAny(networks map[string]infrav1.IngotNetworkSpec, address netip.Addr) bool {
	for _, network := range networks {
		if Contains(network, address) {
			return true
		}
	}
	return false
}

func contains(subnet string, address netip.Addr) bool {
	prefix, err := netip.ParsePrefix(subnet)
	return err == nil && prefix.Contains(address)
}

// Of returns what a network keeps an address for. An address that is reserved for one of the MAC
// addresses is free for them.
func Of(network infrav1.IngotNetworkSpec, address netip.Addr, macs ...string) Use {
	for _, r := range network.StaticLeases {
		if !is(r.IP, address) {
			continue
		}
		if slices.Contains(macs, r.MAC) {
			return None
		}
		return Reserved
	}
	switch {
	case contains(network.Subnet, address):
		return ofIPv4(network, address)
	case network.IPv6 != nil && contains(network.IPv6.Subnet, address):
		return ofIPv6(*network.IPv6, address)
	}
	return None
}

func ofIPv4(network infrav1.IngotNetworkSpec, address netip.Addr) Use {
	routers := append([]string{network.Gateway}, network.Relays...)
	for _, route := range network.Routes {
		routers = append(routers, route.Gateway)
	}
	subnet := netip.MustParsePrefix(network.Subnet).Masked() // it parses: it contains the address
	switch {
	case isAny(routers, address), address == subnet.Addr(), !subnet.Contains(address.Next()):
		return Router
	case isAny(slices.Concat(network.DNSServers, network.NTPServers), address):
		return Server
	case network.Discover != nil && between(network.Discover.Range.Start, network.Discover.Range.End, address):
		return InDiscoveryRange
	case between(network.Range.Start, network.Range.End, address):
		return InRange
	}
	return None
}

func ofIPv6(network infrav1.NetworkIPv6, address netip.Addr) Use {
	subnet := netip.MustParsePrefix(network.Subnet).Masked() // as above
	switch {
	case isAny(network.Relays, address), address == subnet.Addr(): // every router's, RFC 4291 §2.6.1
		return Router
	case isAny(slices.Concat(network.DNSServers, network.NTPServers), address):
		return Server
	case network.Mode != infrav1.DHCPv6ModeStateless && between(network.Range.Start, network.Range.End, address):
		return InRange
	}
	return None
}

func isAny(texts []string, address netip.Addr) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return is(text, address) })
}

func is(text string, address netip.Addr) bool {
	parsed, err := netip.ParseAddr(text)
	return err == nil && parsed == address
}

func between(start, end string, address netip.Addr) bool {
	first, firstErr := netip.ParseAddr(start)
	last, lastErr := netip.ParseAddr(end)
	return firstErr == nil && lastErr == nil && !address.Less(first) && !last.Less(address)
}
