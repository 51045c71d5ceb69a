// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/ttlset"
)

// BindingLifetime is how long a DHCP exchange proves which NIC has an address. A boot fetches
// its script, and its agent opens its session, within seconds of the exchange.
const BindingLifetime = time.Hour

// AddressBindings remembers which boot NIC got which IPv4 address from another DHCP server
// (mode Proxy). The NIC of the latest exchange owns the address. The zero value is ready
// to use, and a nil pointer has no bindings. It is safe for concurrent use.
type AddressBindings struct {
	// Now is the clock; nil means time.Now. Set it before the first use.
	Now func() time.Time

	at ttlset.Map[netip.Addr, [6]byte]
}

// Bind records that the NIC got the address. It ignores MAC addresses that are not 6 bytes
// long, and new addresses once ttlset.DefaultMax are stored.
func (b *AddressBindings) Bind(address netip.Addr, mac net.HardwareAddr) {
	if b == nil || len(mac) != 6 || !address.IsValid() {
		return
	}
	b.at.Put(address, [6]byte(mac), b.now(), BindingLifetime)
}

// At returns the NIC that got the address, or nil if no exchange showed the address.
func (b *AddressBindings) At(address netip.Addr) net.HardwareAddr {
	if b == nil {
		return nil
	}
	mac, _, known := b.at.Get(address, b.now())
	if !known {
		return nil
	}
	return mac[:]
}

func (b *AddressBindings) now() time.Time {
	if b.Now == nil {
		return time.Now()
	}
	return b.Now()
}
