// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"maps"
	"net/netip"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// givenMemory is how long an address is kept that was given and is not recorded:
// longer than a cache lags behind, and short enough that an address whose record
// failed, or whose host was deleted, is soon free again.
const givenMemory = time.Minute

// pendingAddresses gives out addresses of one family to boot NICs. It remembers for a while what
// it gave, since the cache may not show it yet. The zero value is ready; who uses it locks.
type pendingAddresses struct {
	given map[string]map[netip.Addr]pendingAddress // by network
}

type pendingAddress struct {
	mac   string
	until time.Time
}

// take returns the address that the MAC was given a moment ago, or a free one. It adds to
// taken.
func (a *pendingAddresses) take(network *infrav1.IngotNetwork, mac string, taken map[netip.Addr]bool, now time.Time) (netip.Addr, error) {
	return a.give(network.Name, mac, taken, now, func(taken map[netip.Addr]bool) (netip.Addr, error) {
		return inventory.AllocateAddress(network.Spec, taken, mac)
	})
}

// give returns the address that the MAC was given a moment ago, or one that choose
// finds, which is told what else was given. It adds to taken.
func (a *pendingAddresses) give(
	network, mac string, taken map[netip.Addr]bool, now time.Time, choose func(map[netip.Addr]bool) (netip.Addr, error),
) (netip.Addr, error) {
	if a.given == nil {
		a.given = map[string]map[netip.Addr]pendingAddress{}
	}
	if a.given[network] == nil {
		a.given[network] = map[netip.Addr]pendingAddress{}
	}
	given := a.given[network]
	for address, to := range given {
		switch {
		case to.mac == mac && now.Before(to.until):
			return address, nil
		case now.Before(to.until):
			taken[address] = true
		default:
			delete(given, address)
		}
	}
	address, err := choose(taken)
	if err != nil {
		return netip.Addr{}, err
	}
	given[address] = pendingAddress{mac: mac, until: now.Add(givenMemory)}
	return address, nil
}

// reserve keeps an address for a MAC that somebody else chose; false: another was given
// it a moment ago.
func (a *pendingAddresses) reserve(network, mac string, address netip.Addr, now time.Time) bool {
	if to, there := a.given[network][address]; there && to.mac != mac && now.Before(to.until) {
		return false
	}
	if a.given == nil {
		a.given = map[string]map[netip.Addr]pendingAddress{}
	}
	if a.given[network] == nil {
		a.given[network] = map[netip.Addr]pendingAddress{}
	}
	maps.DeleteFunc(a.given[network], func(_ netip.Addr, to pendingAddress) bool { return !now.Before(to.until) })
	a.given[network][address] = pendingAddress{mac: mac, until: now.Add(givenMemory)}
	return true
}

// withdraw forgets which of the addresses a MAC was given.
func (a *pendingAddresses) withdraw(mac string, addresses map[netip.Addr]bool) {
	for _, given := range a.given {
		maps.DeleteFunc(given, func(address netip.Addr, to pendingAddress) bool { return to.mac == mac && addresses[address] })
	}
}

// gaveAway says whether another MAC was given the address a moment ago, on any network.
func (a *pendingAddresses) gaveAway(address netip.Addr, mac string, now time.Time) bool {
	for _, given := range a.given {
		if to, there := given[address]; there && to.mac != mac && now.Before(to.until) {
			return true
		}
	}
	return false
}
