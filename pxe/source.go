// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"bytes"
	"net"
	"net/netip"
)

// MayUseAddress reports whether a request from the source address may be the host's. Parameter
// shown is the boot NIC that DHCP saw with the address (AddressBindings), or nil.
//
// The following addresses are allowed:
//
//   - the recorded address;
//   - on an IPv6 network, the address made from the host's MAC address (RFC 4291,
//     appendix A), as firmware and the agent make theirs;
//   - in mode Proxy, the address that the host got from the other server;
//   - any address, if neither network nor address of the host is known.
//
// This keeps data of the host from its network neighbors. It cannot detect a machine that
// spoofs the address or the MAC address of the host.
func (h Host) MayUseAddress(from netip.Addr, shown net.HardwareAddr) bool {
	on := h.IPv4Subnet()
	switch {
	case !on.IsValid() && h.IPv6.Mode == NoIPv6:
		return true
	case from.Is6():
		if h.IPv6.Mode == NoIPv6 || !h.IPv6.Subnet.Contains(from) {
			return false
		}
		return h.IPv6.Mode == Stateful && from == h.IPv6.Address || IsEUI64Of(from, h.MAC)
	case h.Mode == Proxy:
		return on.Contains(from) && len(shown) > 0 && bytes.Equal(shown, h.MAC)
	}
	return h.Address.IsValid() && from == h.Address.Addr()
}

// IsEUI64Of reports whether an IPv6 address was made from a MAC address.
func IsEUI64Of(address netip.Addr, mac net.HardwareAddr) bool {
	made := FromEUI64(address)
	return made != nil && bytes.Equal(made, mac)
}

// FromEUI64 returns the MAC address in a modified EUI-64 interface identifier (RFC 4291,
// appendix A), or nil for other kinds of identifiers.
func FromEUI64(address netip.Addr) net.HardwareAddr {
	if !address.Is6() {
		return nil
	}
	b := address.As16()
	if b[11] != 0xff || b[12] != 0xfe {
		return nil
	}
	return net.HardwareAddr{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}
}
