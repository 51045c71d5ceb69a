// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// BindingLifetime is how long a DHCP exchange counts as evidence. A boot asks for its
	// script, and its agent opens its session, within seconds of an exchange.
	BindingLifetime = time.Hour
	// maxBindings bounds the memory. Only hosts of the Directory are remembered.
	maxBindings = 1 << 16
)

// AddressBindings remembers which boot NIC took which IPv4 address in a DHCP exchange
// that another server answered (mode Proxy). An address belongs to the NIC that took it
// last. The zero value is ready and a nil pointer knows nothing. It is safe for
// concurrent use.
type AddressBindings struct {
	// Now is the clock; nil means time.Now. Set it before the first use.
	Now func() time.Time

	mu sync.Mutex
	at map[netip.Addr]binding
}

type binding struct {
	mac   [6]byte
	until time.Time
}

// Bind notes that the NIC took the address. It does nothing for a MAC address of another
// length than Ethernet's, or when maxBindings addresses are remembered.
func (b *AddressBindings) Bind(address netip.Addr, mac net.HardwareAddr) {
	if b == nil || len(mac) != 6 || !address.IsValid() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.at == nil {
		b.at = map[netip.Addr]binding{}
	}
	if _, known := b.at[address]; !known && len(b.at) >= maxBindings {
		for a, old := range b.at {
			if !now.Before(old.until) {
				delete(b.at, a)
			}
		}
		if len(b.at) >= maxBindings {
			return
		}
	}
	b.at[address] = binding{mac: [6]byte(mac), until: now.Add(BindingLifetime)}
}

// At returns the NIC that took the address; nil: no exchange showed one.
func (b *AddressBindings) At(address netip.Addr) net.HardwareAddr {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found, known := b.at[address]
	if !known || !b.now().Before(found.until) {
		return nil
	}
	return bytes.Clone(found.mac[:])
}

func (b *AddressBindings) now() time.Time {
	if b.Now == nil {
		return time.Now()
	}
	return b.Now()
}
