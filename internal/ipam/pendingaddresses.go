// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"maps"
	"net/netip"
	"time"
)

// pendingTime is how long an assigned address is kept before it is recorded: longer than a cache lags,
// and short enough to free an address soon whose record failed or whose host was deleted.
const pendingTime = time.Minute

// pendingAddresses remembers the addresses of one family that were assigned to boot NICs a moment ago,
// which the cache may not show yet. The zero value is ready. Callers lock.
type pendingAddresses struct {
	byNetwork map[string]map[netip.Addr]pendingAddress
}

type pendingAddress struct {
	mac   string
	until time.Time
}

func (a *pendingAddresses) ofNetwork(network string) map[netip.Addr]pendingAddress {
	if a.byNetwork == nil {
		a.byNetwork = map[string]map[netip.Addr]pendingAddress{}
	}
	if a.byNetwork[network] == nil {
		a.byNetwork[network] = map[netip.Addr]pendingAddress{}
	}
	return a.byNetwork[network]
}

// take returns the pending address of the MAC address, or one that choose returns. It adds the other
// pending addresses to taken.
func (a *pendingAddresses) take(
	network, mac string, taken map[netip.Addr]bool, now time.Time, choose func(map[netip.Addr]bool) (netip.Addr, error),
) (netip.Addr, error) {
	pending := a.ofNetwork(network)
	for address, to := range pending {
		switch {
		case to.mac == mac && now.Before(to.until):
			return address, nil
		case now.Before(to.until):
			taken[address] = true
		default:
			delete(pending, address)
		}
	}
	address, err := choose(taken)
	if err != nil {
		return netip.Addr{}, err
	}
	pending[address] = pendingAddress{mac: mac, until: now.Add(pendingTime)}
	return address, nil
}

// reserve adds an address that a pool chose. It returns false if the address is pending for another MAC
// address.
func (a *pendingAddresses) reserve(network, mac string, address netip.Addr, now time.Time) bool {
	pending := a.ofNetwork(network)
	if to, found := pending[address]; found && to.mac != mac && now.Before(to.until) {
		return false
	}
	maps.DeleteFunc(pending, func(_ netip.Addr, to pendingAddress) bool { return !now.Before(to.until) })
	pending[address] = pendingAddress{mac: mac, until: now.Add(pendingTime)}
	return true
}

// withdraw removes those of the addresses that are pending for a MAC address.
func (a *pendingAddresses) withdraw(mac string, addresses map[netip.Addr]bool) {
	for _, given := range a.byNetwork {
		maps.DeleteFunc(given, func(address netip.Addr, to pendingAddress) bool { return to.mac == mac && addresses[address] })
	}
}

// isPendingForOther reports whether the address is pending for another MAC address, on any network.
func (a *pendingAddresses) isPendingForOther(address netip.Addr, mac string, now time.Time) bool {
	for _, pending := range a.byNetwork {
		if to, found := pending[address]; found && to.mac != mac && now.Before(to.until) {
			return true
		}
	}
	return false
}
