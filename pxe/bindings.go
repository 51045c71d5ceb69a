// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/ttlset"
)

// BindingLifetime is how long a DHCP exchange counts as evidence. A boot asks for its script,
// and its agent opens its session, within seconds of an exchange.
const BindingLifetime = time.Hour

// AddressBindings remembers which boot NIC took which IPv4 address in a DHCP exchange
// that another server answered (mode Proxy). An address belongs to the NIC that took it
// last. The zero value is ready and a nil pointer knows nothing. It is safe for
// concurrent use.
type AddressBindings struct {
	// Now is the clock; nil means time.Now. Set it before the first use.
	Now func() time.Time

	at ttlset.Map[netip.Addr, [6]byte]
}

// Bind notes that the NIC took the address. It does nothing for a MAC address of another
// length than Ethernet's, or when ttlset.DefaultMax addresses are remembered.
func (b *AddressBindings) Bind(address netip.Addr, mac net.HardwareAddr) {
	if b == nil || len(mac) != 6 || !address.IsValid() {
		return
	}
	b.at.Put(address, [6]byte(mac), b.now(), BindingLifetime)
}

// At returns the NIC that took the address; nil: no exchange showed one.
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
