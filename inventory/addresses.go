// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

var (
	// ErrAddressesExhausted means that no address of the range is free.
	ErrAddressesExhausted = errors.New("no address is free")
	// ErrNetworkInvalid means that subnet or range of the IngotNetwork are invalid.
	ErrNetworkInvalid = errors.New("invalid network")
)

// AllocateAddress returns a free IPv4 address for the NIC with the MAC address. The search starts at
// a hash of the MAC address: a host that is registered again usually gets its old address, and
// hosts that register together do not compete for one.
//
// It never returns an address in taken (internal/ipam: recorded for other hosts, used by their
// systems, reserved by other networks, endpoints of control planes), an address of a router,
// relay, DNS or NTP server, one that is reserved for another NIC, or the subnet's own and
// broadcast address. It returns an address that is reserved for the MAC address, inside or outside
// the range and for any use: a host may be the network's DNS server.
//
// It fails with ErrAddressesExhausted or ErrNetworkInvalid.
func AllocateAddress(network infrav1.IngotNetworkSpec, taken map[netip.Addr]bool, mac string) (netip.Addr, error) {
	subnet, first, last, err := parseRange(network)
	if err != nil {
		return netip.Addr{}, err
	}
	reserved := map[netip.Addr]bool{subnet.Addr(): true, broadcast(subnet): true}
	others := slices.Concat([]string{network.Gateway}, network.DNSServers, network.NTPServers, network.Relays)
	for _, route := range network.Routes {
		others = append(others, route.Gateway)
	}
	for _, text := range others {
		if address, err := netip.ParseAddr(text); err == nil {
			reserved[address] = true
		}
	}
	for _, kept := range network.StaticLeases {
		address, err := netip.ParseAddr(kept.IP)
		switch {
		case err != nil || !subnet.Contains(address):
			continue
		case kept.MAC == mac && taken[address]:
			return netip.Addr{}, fmt.Errorf("%w: spec.staticLeases keeps %s for %s, and another host has it, by record or by the claim of its system; correct it there, or release and delete that host", ErrNetworkInvalid, address, mac)
		case kept.MAC == mac:
			return address, nil
		}
		reserved[address] = true
	}
	size := uint64(last-first) + 1
	h := fnv.New64a()
	_, _ = h.Write([]byte(mac))
	start := Mix(h.Sum64()) % size
	for i := range size {
		address := fromUint32(first + uint32((start+i)%size))
		if !taken[address] && !reserved[address] {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: all %d addresses of the range %s to %s are taken, reserved or endpoints of clusters",
		ErrAddressesExhausted, size, network.Range.Start, network.Range.End)
}

func parseRange(network infrav1.IngotNetworkSpec) (subnet netip.Prefix, first, last uint32, err error) {
	subnet, err = netip.ParsePrefix(network.Subnet)
	if err != nil || !subnet.Addr().Is4() {
		return subnet, 0, 0, fmt.Errorf("%w: subnet %q is not an IPv4 prefix", ErrNetworkInvalid, network.Subnet)
	}
	subnet = subnet.Masked()
	start, startErr := netip.ParseAddr(network.Range.Start)
	end, endErr := netip.ParseAddr(network.Range.End)
	if startErr != nil || endErr != nil || !subnet.Contains(start) || !subnet.Contains(end) || end.Less(start) {
		return subnet, 0, 0, fmt.Errorf("%w: range %q to %q is not a range within %s", ErrNetworkInvalid, network.Range.Start, network.Range.End, subnet)
	}
	return subnet, toUint32(start), toUint32(end), nil
}

func broadcast(subnet netip.Prefix) netip.Addr {
	return fromUint32(toUint32(subnet.Addr()) | uint32(1<<(32-subnet.Bits())-1))
}

func toUint32(address netip.Addr) uint32 {
	b := address.As4()
	return binary.BigEndian.Uint32(b[:])
}

func fromUint32(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// Mix spreads the bits of a hash (the finalizer of MurmurHash3). With FNV alone, names that differ
// in their last character have close hashes.
func Mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
