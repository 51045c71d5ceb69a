// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"net/netip"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// AllocateIPv6 is AllocateAddress for IPv6. It never returns the subnet's own address either, which
// is that of every router (RFC 4291 section 2.6.1).
func AllocateIPv6(network infrav1.NetworkIPv6, taken map[netip.Addr]bool, mac string) (netip.Addr, error) {
	subnet, err := netip.ParsePrefix(network.Subnet)
	if err != nil || !subnet.Addr().Is6() {
		return netip.Addr{}, fmt.Errorf("%w: subnet %q is not an IPv6 prefix", ErrNetworkInvalid, network.Subnet)
	}
	subnet = subnet.Masked()
	first, firstErr := netip.ParseAddr(network.Range.Start)
	last, lastErr := netip.ParseAddr(network.Range.End)
	if firstErr != nil || lastErr != nil || !subnet.Contains(first) || !subnet.Contains(last) || last.Less(first) {
		return netip.Addr{}, fmt.Errorf("%w: range %q to %q is not a range within %s", ErrNetworkInvalid, network.Range.Start, network.Range.End, subnet)
	}
	reserved := map[netip.Addr]bool{subnet.Addr(): true}
	for _, list := range [][]string{network.DNSServers, network.NTPServers, network.Relays} {
		for _, text := range list {
			if address, err := netip.ParseAddr(text); err == nil {
				reserved[address] = true
			}
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(mac))
	size := distance(first, last)
	start := Mix(h.Sum64()) % size
	// At most so many addresses are not free.
	tries := min(size, uint64(len(taken)+len(reserved))+1)
	for i := range tries {
		address := plus(first, (start+i)%size)
		if !taken[address] && !reserved[address] {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: all addresses of the range %s to %s are taken, reserved or endpoints of clusters",
		ErrAddressesExhausted, network.Range.Start, network.Range.End)
}

// distance returns the number of addresses from first to last inclusive, but at most
// math.MaxInt64.
func distance(first, last netip.Addr) uint64 {
	a, b := first.As16(), last.As16()
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(a[8:]), 0)
	high, _ := bits.Sub64(binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(a[:8]), borrow)
	if high > 0 || low >= math.MaxInt64 {
		return math.MaxInt64
	}
	return low + 1
}

// plus returns the nth address after another.
func plus(address netip.Addr, n uint64) netip.Addr {
	b := address.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), n, 0)
	high, _ := bits.Add64(binary.BigEndian.Uint64(b[:8]), 0, carry)
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b)
}
