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

// reserveMemory is how long the addresses of a claim that is being written are remembered: longer than a
// cache lags.
const reserveMemory = 15 * time.Second

// Memory remembers the addresses that were assigned a moment ago to boot NICs and installed systems,
// which a cache may not show yet. All hosts and machines share one, since a pool or an operator may
// assign the same address to both. The zero value is ready. It may be lost with the process.
type Memory struct {
	mu      sync.Mutex
	v4, v6  pendingAddresses
	systems map[netip.Addr]systemReservation
	// others is the last warning about each host in use whose pool holds another address.
	others map[types.UID]string
	// recorded is the IPv4 address that each boot NIC was last seen to have, by network.
	recorded map[nic]string
}

// nic is a boot NIC on a network.
type nic struct{ network, mac string }

// remember records the host's address.
func (m *Memory) remember(v View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recorded == nil {
		m.recorded = map[nic]string{}
	}
	m.recorded[nic{v.Network.Name, v.Host.Spec.BootMACAddress}] = v.Hardware.Spec.Address.IP
}

// last returns the last known address of the host, or "".
func (m *Memory) last(v View) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recorded[nic{v.Network.Name, v.Host.Spec.BootMACAddress}]
}

// systemReservation is an address in a claim that is being written.
type systemReservation struct {
	machine types.UID
	// mac is the MAC address of the host's boot NIC.
	mac   string
	until time.Time
}

// SystemAddresses are the addresses of a claim that is being written.
type SystemAddresses struct {
	// Machine is the machine of the claim, BootMAC the MAC address of the host's boot NIC.
	Machine types.UID
	BootMAC string
	// Addresses are exclusive to one system.
	Addresses []netip.Addr
}

// Reserve reserves all addresses for the machine's system, or none. It returns false and the address that
// another machine's system or another host's boot NIC got a moment ago.
func (m *Memory) Reserve(b SystemAddresses, now time.Time) (taken netip.Addr, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.systems, func(_ netip.Addr, old systemReservation) bool { return !now.Before(old.until) })
	for _, address := range b.Addresses {
		other, there := m.systems[address]
		if there && other.machine != b.Machine || m.v4.isPendingForOther(address, b.BootMAC, now) || m.v6.isPendingForOther(address, b.BootMAC, now) {
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

// Unreserve drops the reservations of a machine whose claim was not written.
func (m *Memory) Unreserve(machine types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.systems, func(_ netip.Addr, old systemReservation) bool { return old.machine == machine })
}

// takeIPv4 and takeIPv6 return an address of the network's range for a boot NIC that is not taken. A
// repeated call returns the same address. They add pending addresses to taken.
func (m *Memory) takeIPv4(network *infrav1.IngotNetwork, mac string, taken map[netip.Addr]bool, now time.Time) (netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addSystems(mac, taken, now)
	return m.v4.take(network.Name, mac, taken, now, func(taken map[netip.Addr]bool) (netip.Addr, error) {
		return inventory.AllocateAddress(network.Spec, taken, mac)
	})
}

func (m *Memory) takeIPv6(network *infrav1.IngotNetwork, mac string, taken map[netip.Addr]bool, now time.Time) (netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addSystems(mac, taken, now)
	return m.v6.take(network.Name, mac, taken, now, func(taken map[netip.Addr]bool) (netip.Addr, error) {
		return inventory.AllocateIPv6(*network.Spec.IPv6, taken, mac)
	})
}

// changeOther sets the last warning about a host, and reports whether it has changed; "" for none.
func (m *Memory) changeOther(host types.UID, other string) bool {
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

// withdraw forgets that the addresses were assigned to a boot NIC a moment ago: it must not have them, and
// they may not be recorded yet.
func (m *Memory) withdraw(mac string, addresses map[netip.Addr]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.v4.withdraw(mac, addresses)
	m.v6.withdraw(mac, addresses)
}

// reserveIPv4 reserves an address that a pool chose for a boot NIC. It returns false if the address was
// assigned to another host or system a moment ago.
func (m *Memory) reserveIPv4(network, mac string, address netip.Addr, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := map[netip.Addr]bool{}
	m.addSystems(mac, taken, now)
	return !taken[address] && m.v4.reserve(network, mac, address, now)
}

// addSystems adds the reserved addresses of other hosts' systems to taken.
func (m *Memory) addSystems(mac string, taken map[netip.Addr]bool, now time.Time) {
	for address, b := range m.systems {
		if b.mac != mac && now.Before(b.until) {
			taken[address] = true
		}
	}
}
