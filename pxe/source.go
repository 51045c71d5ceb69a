// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import "net/netip"

// Speaks says whether the host may speak from an address: from the one recorded for it,
// or, in mode Proxy, from any of its network; and from any of the network's IPv6
// addresses, since firmware may make its own. A host of which neither network nor address
// is known speaks from anywhere.
//
// It keeps what is for the host from those who are not on its network at all. Who is can
// take its address.
func (h Host) Speaks(from netip.Addr) bool {
	on := h.On()
	switch {
	case !on.IsValid() && h.IPv6.Mode == NoIPv6:
		return true
	case from.Is6():
		return h.IPv6.Mode != NoIPv6 && h.IPv6.Subnet.Contains(from)
	case h.Mode == Proxy:
		return on.Contains(from)
	}
	return h.Address.IsValid() && from == h.Address.Addr()
}
