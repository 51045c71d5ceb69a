// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

// ICMPv6 types (RFC 4861 sections 4.1 and 4.2).
const (
	typeSolicitation  = 133
	typeAdvertisement = 134
)

const (
	optionSource = 1  // source link-layer address (RFC 4861 section 4.6.1)
	optionPrefix = 3  // prefix information (RFC 4861 section 4.6.2)
	optionMTU    = 5  // RFC 4861 section 4.6.4
	optionDNS    = 25 // recursive DNS servers (RFC 8106 section 5.1)
	optionSearch = 31 // DNS search list (RFC 8106 section 5.2)
)

const (
	flagManaged    = 0x80 // M: addresses by DHCPv6
	flagOther      = 0x40 // O: other options by DHCPv6
	flagOnLink     = 0x80 // L of a prefix
	flagAutonomous = 0x40 // A of a prefix: hosts make their addresses

	hops = 64 // current hop limit (IANA)

	// Lifetimes of a prefix (RFC 4861 section 6.2.1) and of DNS options, which is three
	// times the longest interval (RFC 8106 section 5.1).
	validLifetime     = 30 * 24 * time.Hour
	preferredLifetime = 7 * 24 * time.Hour
	dnsLifetime       = 3 * maxInterval
	// leavingLifetime is the valid lifetime of a withdrawn prefix. Hosts accept no shorter
	// one for addresses that they made (RFC 4862 section 5.5.3).
	leavingLifetime = 2 * time.Hour

	maxDNS = 4
)

// Content is the input of an advertisement on one link.
type Content struct {
	// Networks are the current networks of the link. Gone are networks that were advertised
	// before and are now removed or changed: their old prefixes and servers are withdrawn.
	Networks, Gone []pxe.Advertisement
	// Last means that the sender stops being a default router (RFC 4861 section 6.2.5).
	Last bool
}

// Message returns the ICMPv6 message of the interface with hardware address source, or nil if
// there is nothing to send. The kernel fills in the checksum (RFC 3542 section 3.1).
func Message(source net.HardwareAddr, content Content) []byte {
	if len(content.Networks)+len(content.Gone) == 0 {
		return nil
	}
	var flags byte
	var lifetime time.Duration
	mtu := 0
	var options []byte
	for _, n := range content.Gone {
		if !slices.ContainsFunc(content.Networks, func(other pxe.Advertisement) bool { return other.Prefix == n.Prefix }) {
			options = append(options, prefix(n, leavingLifetime, 0)...)
		}
		options = append(options, dns(dropped(n.DNS, content.Networks, func(n pxe.Advertisement) []netip.Addr { return n.DNS }), 0)...)
		options = append(options, search(dropped(n.Search, content.Networks, func(n pxe.Advertisement) []string { return n.Search }), 0)...)
	}
	for _, n := range content.Networks {
		flags |= flagsOf(n)
		lifetime = max(lifetime, n.RouterLifetime)
		if n.MTU >= 1280 && (mtu == 0 || n.MTU < mtu) { // RFC 8200 section 5
			mtu = n.MTU
		}
		options = append(options, prefix(n, validLifetime, preferredLifetime)...)
		options = append(options, dns(n.DNS, dnsLifetime)...)
		options = append(options, search(n.Search, dnsLifetime)...)
	}
	if content.Last {
		lifetime = 0
	}
	b := []byte{typeAdvertisement, 0, 0, 0, hops, flags}
	b = binary.BigEndian.AppendUint16(b, uint16(min(lifetime/time.Second, 9000)))
	b = append(b, make([]byte, 8)...) // reachable time and retransmission timer: unspecified
	if len(source) == 6 {
		b = append(append(b, optionSource, 1), source...)
	}
	if mtu > 0 {
		b = binary.BigEndian.AppendUint32(append(b, optionMTU, 1, 0, 0), uint32(mtu))
	}
	return append(b, options...)
}

// dropped returns the elements of was that no current network has.
func dropped[T comparable](was []T, now []pxe.Advertisement, of func(pxe.Advertisement) []T) []T {
	return slices.DeleteFunc(slices.Clone(was), func(one T) bool {
		return slices.ContainsFunc(now, func(n pxe.Advertisement) bool { return slices.Contains(of(n), one) })
	})
}

func flagsOf(n pxe.Advertisement) byte {
	switch n.Mode {
	case pxe.Stateful:
		return flagManaged | flagOther
	case pxe.Stateless:
		return flagOther
	}
	return 0
}

func prefix(n pxe.Advertisement, valid, preferred time.Duration) []byte {
	flags := byte(flagOnLink)
	if n.Mode == pxe.Stateless && n.Prefix.Bits() == 64 {
		flags |= flagAutonomous
	}
	b := []byte{optionPrefix, 4, byte(n.Prefix.Bits()), flags}
	b = binary.BigEndian.AppendUint32(b, uint32(valid/time.Second))
	b = binary.BigEndian.AppendUint32(b, uint32(preferred/time.Second))
	b = append(b, 0, 0, 0, 0)
	address := n.Prefix.Masked().Addr().As16()
	return append(b, address[:]...)
}

func dns(servers []netip.Addr, lifetime time.Duration) []byte {
	var list []byte
	n := 0
	for _, s := range servers {
		if s.Is6() && !s.Is4In6() && n < maxDNS {
			list = append(list, s.AsSlice()...)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	b := []byte{optionDNS, byte(1 + 2*n), 0, 0}
	return append(binary.BigEndian.AppendUint32(b, uint32(lifetime/time.Second)), list...)
}

const maxSearch = 256

func search(domains []string, lifetime time.Duration) []byte {
	var names []byte
	for _, domain := range domains {
		if name, ok := pxe.EncodeDomain(domain); ok && len(names)+len(name) <= maxSearch {
			names = append(names, name...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	for len(names)%8 != 0 {
		names = append(names, 0)
	}
	b := []byte{optionSearch, byte(1 + len(names)/8), 0, 0}
	return append(binary.BigEndian.AppendUint32(b, uint32(lifetime/time.Second)), names...)
}

// isSolicitation reports whether b is a valid router solicitation (RFC 4861 section 6.1.1).
// The hop limit shows that no router forwarded it. The kernel has verified the checksum.
func isSolicitation(b []byte, from netip.Addr, hopLimit int) bool {
	if len(b) < 8 || b[0] != typeSolicitation || b[1] != 0 || hopLimit != 255 {
		return false
	}
	for rest := b[8:]; len(rest) > 0; {
		if len(rest) < 2 || rest[1] == 0 || len(rest) < 8*int(rest[1]) {
			return false
		}
		if rest[0] == optionSource && from.IsUnspecified() {
			return false
		}
		rest = rest[8*int(rest[1]):]
	}
	return true
}
