// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// reserveMemory is how long the addresses are remembered that a claim is being written with:
// longer than a cache lags behind.
const reserveMemory = 15 * time.Second

// Memory is which addresses were given a moment ago, to boot NICs and to installed
// systems, whatever a cache shows: it is one for all hosts and machines, since a pool or a
// person may give both the same. The zero value is ready, and it may be lost with the
// process: what the cache shows is looked at besides.
type Memory struct {
	mu      sync.Mutex
	v4, v6  pendingAddresses
	systems map[netip.Addr]systemReservation
	// others are what people were told that pools hold for hosts in use.
	others map[types.UID]string
	// recorded is the IPv4 address that each boot NIC was last seen to have, by network.
	recorded map[nic]string
}

// nic is a boot NIC on a network.
type nic struct{ network, mac string }

// remember notes the address that is recorded for the host.
func (m *Memory) remember(v View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recorded == nil {
		m.recorded = map[nic]string{}
	}
	m.recorded[nic{v.Network.Name, v.Host.Spec.BootMACAddress}] = v.Hardware.Spec.Address.IP
}

// last is the address that the host was last seen to have; empty: it is not known.
func (m *Memory) last(v View) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recorded[nic{v.Network.Name, v.Host.Spec.BootMACAddress}]
}

// systemReservation is what a claim is being written with.
type systemReservation struct {
	machine types.UID
	// mac is that of the host's boot NIC.
	mac   string
	until time.Time
}

// SystemAddresses is a claim that is about to be written with addresses.
type SystemAddresses struct {
	// Machine that the host is claimed for, and the MAC address of the host's boot NIC.
	Machine types.UID
	BootMAC string
	// Addresses that one system alone may have.
	Addresses []netip.Addr
}

// Reserve keeps the addresses for the machine's system, all or none; false: one, which it
// names, was given to another machine's system or another host's boot NIC a moment ago.
func (m *Memory) Reserve(b SystemAddresses, now time.Time) (taken netip.Addr, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.systems, func(_ netip.Addr, old systemReservation) bool { return !now.Before(old.until) })
	for _, address := range b.Addresses {
		other, there := m.systems[address]
		if there && other.machine != b.Machine || m.v4.gaveAway(address, b.BootMAC, now) || m.v6.gaveAway(address, b.BootMAC, now) {
			return address, false
		}
	}
	if m.systems == nil {
		m.systems = map[netip.Addr]systemReservation{}
	}
	for _, address := range b.Addresses {
		m.systems[address] = systemReservation{machine: b.Machine, mac: b.BootMAC, until: now.Add(reserveMemory)}
	}
	return netip.Addr{}, true
}

// Unreserve gives back what is kept for a machine whose claim was not written.
func (m *Memory) Unreserve(machine types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.systems, func(_ netip.Addr, old systemReservation) bool { return old.machine == machine })
}

// takeIPv4 and takeIPv6 return an address of the network's range for a boot NIC, the same
// when asked again, beside those that are taken. They add to taken.
func (m *Memory) takeIPv4(network *infrav1.IngotNetwork, mac string, taken map[netip.Addr]bool, now time.Time) (netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.besideSystems(mac, taken, now)
	return m.v4.take(network, mac, taken, now)
}

func (m *Memory) takeIPv6(network *infrav1.IngotNetwork, mac string, taken map[netip.Addr]bool, now time.Time) (netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.besideSystems(mac, taken, now)
	return m.v6.give(network.Name, mac, taken, now, func(taken map[netip.Addr]bool) (netip.Addr, error) {
		return inventory.AllocateIPv6(*network.Spec.IPv6, taken, mac)
	})
}

// isNews says whether it was something else, or nothing, that was told last of the host;
// empty: there is nothing to tell.
func (m *Memory) isNews(host types.UID, other string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.others[host] == other {
		return false
	}
	if m.others == nil {
		m.others = map[types.UID]string{}
	}
	m.others[host] = other
	if other == "" {
		delete(m.others, host)
	}
	return true
}

// withdraw forgets which of the addresses a boot NIC was given a moment ago: it may not have
// them any more, and they may not be recorded yet.
func (m *Memory) withdraw(mac string, addresses map[netip.Addr]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.v4.withdraw(mac, addresses)
	m.v6.withdraw(mac, addresses)
}

// reserveIPv4 keeps an address for a boot NIC that a pool chose; false: somebody else was
// given it a moment ago.
func (m *Memory) reserveIPv4(network, mac string, address netip.Addr, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := map[netip.Addr]bool{}
	m.besideSystems(mac, taken, now)
	return !taken[address] && m.v4.reserve(network, mac, address, now)
}

// besideSystems adds what the systems of other hosts are being given.
func (m *Memory) besideSystems(mac string, taken map[netip.Addr]bool, now time.Time) {
	for address, b := range m.systems {
		if b.mac != mac && now.Before(b.until) {
			taken[address] = true
		}
	}
}
