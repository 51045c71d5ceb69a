// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// offerDuration is how long an address is kept for a client that was offered it.
	offerDuration = 30 * time.Second
	// leaseDuration is the lease time of a client that accepted its address: longer than the
	// agent tries to report.
	leaseDuration = 20 * time.Minute
	// readmitAfter is the time from the start of a lease until the client may get another one.
	// Meanwhile it boots something else.
	readmitAfter = time.Hour
	// declinedFor is how long an address is not offered after a client declined it (as in package
	// dhcp).
	declinedFor = 10 * time.Minute
	// maxLeases bounds the clients of one network that report at once, and maxRemembered
	// those that are remembered.
	maxLeases     = 256
	maxRemembered = 4096
)

// leases are the leases of unknown machines on one network. Their number is bounded. It is safe for
// concurrent use.
type leases struct {
	mu        sync.Mutex
	byMAC     map[string]*lease
	byAddress map[netip.Addr]*lease
	// rate limits the new leases; its burst is the number for one minute.
	rate *rate.Limiter
}

func newLeases() *leases {
	return &leases{byMAC: map[string]*lease{}, byAddress: map[netip.Addr]*lease{}}
}

// lease is the address of one client.
type lease struct {
	mac     string
	address netip.Addr
	// until is the end of the lease. Before readmit the client gets no other lease.
	until, readmit time.Time
	// arrived: the agent was seen, so that the firmware needs no more answers.
	arrived bool
}

// pool is the configuration of a network.
type pool struct {
	first, last netip.Addr
	perMinute   int
	// admits reports whether a client may get an address. It is called once per client.
	admits func() bool
	// isTaken reports whether an address is in use.
	isTaken func(netip.Addr) bool
}

// offer returns the address for a client, or false if the client gets none.
func (l *leases) offer(now time.Time, s pxe.UnknownClient, p pool) (netip.Addr, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mac := string(s.MAC)
	known := l.byMAC[mac]
	if known != nil && !now.Before(known.until) && !now.Before(known.readmit) {
		l.forget(known)
		known = nil
	}
	switch {
	case s.DeclinedAddress.IsValid():
		if known != nil && known.address == s.DeclinedAddress && now.Before(known.until) {
			l.decline(now, known)
		}
		return netip.Addr{}, false
	case s.AcceptsOtherServer:
		l.learn(now, known, s, p)
		return netip.Addr{}, false
	case known != nil && !now.Before(known.until), known != nil && known.arrived && !s.Agent && !s.Client.IsValid():
		return netip.Addr{}, false
	case s.Client.IsValid():
		return s.Client, known != nil && known.address == s.Client && !known.arrived
	case known == nil && s.Agent:
		return netip.Addr{}, false
	case known == nil:
		if known = l.admit(now, mac, p); known == nil {
			return netip.Addr{}, false
		}
	}
	if s.RequestedAddress == known.address {
		known.begin(now)
	}
	known.arrived = known.arrived || s.Agent
	return known.address, true
}

// begin starts the lease of a client that accepts its offer.
func (c *lease) begin(now time.Time) {
	if c.readmit.IsZero() {
		c.until, c.readmit = now.Add(leaseDuration), now.Add(readmitAfter)
	}
}

// learn records that a client accepts the offer of another replica. Requests are broadcasts, so that
// replicas do not offer the same address twice.
func (l *leases) learn(now time.Time, known *lease, s pxe.UnknownClient, p pool) {
	if s.RequestedAddress.Less(p.first) || p.last.Less(s.RequestedAddress) {
		return
	}
	if known != nil && known.address == s.RequestedAddress {
		known.begin(now)
		return
	}
	if other := l.byAddress[s.RequestedAddress]; other != nil && now.Before(other.until) {
		return
	}
	if known != nil && !known.readmit.IsZero() {
		return // the client has, or had, a lease, which a contradicting packet must not change
	}
	if !p.admits() || !l.takeRate(now, p) {
		return
	}
	if known != nil {
		l.forget(known)
	}
	l.keep(&lease{mac: string(s.MAC), address: s.RequestedAddress}).begin(now)
}

// decline excludes an address for declinedFor, because its client found it in use (RFC 2131 section
// 4.3.3). The client may get another one.
func (l *leases) decline(now time.Time, one *lease) {
	l.forget(one)
	l.keep(&lease{mac: "declined " + one.address.String(), address: one.address, until: now.Add(declinedFor), readmit: now.Add(declinedFor)})
}

// admit offers a client an address, or returns nil.
func (l *leases) admit(now time.Time, mac string, p pool) *lease {
	if !l.hasRate(now, p) || !p.admits() {
		return nil
	}
	address, ok := l.findFree(now, mac, p)
	if !ok || !l.takeRate(now, p) {
		return nil
	}
	return l.keep(&lease{mac: mac, address: address, until: now.Add(offerDuration)})
}

// hasRate reports whether the rate allows another client.
func (l *leases) hasRate(now time.Time, p pool) bool {
	if l.rate == nil {
		l.rate = rate.NewLimiter(rate.Limit(p.perMinute)/60, p.perMinute)
	} else if l.rate.Burst() != p.perMinute {
		l.rate.SetBurstAt(now, p.perMinute)
		l.rate.SetLimitAt(now, rate.Limit(p.perMinute)/60)
	}
	return l.rate.TokensAt(now) >= 1
}

// takeRate counts a new client, after it has removed expired leases. It returns false if the rate or
// the number of leases does not allow the client.
func (l *leases) takeRate(now time.Time, p pool) bool {
	if !l.hasRate(now, p) {
		return false
	}
	active := 0
	for _, other := range l.byMAC {
		switch {
		case now.Before(other.until):
			active++
		case !now.Before(other.readmit):
			l.forget(other)
		}
	}
	if active >= maxLeases || len(l.byMAC) >= maxRemembered {
		return false
	}
	return l.rate.AllowN(now, 1)
}

func (l *leases) keep(one *lease) *lease {
	l.byMAC[one.mac], l.byAddress[one.address] = one, one
	return one
}

func (l *leases) forget(one *lease) {
	delete(l.byMAC, one.mac)
	if l.byAddress[one.address] == one {
		delete(l.byAddress, one.address)
	}
}

// findFree returns a free address. The search starts at a hash of the MAC address, so that replicas
// mostly offer the same address to a client.
func (l *leases) findFree(now time.Time, mac string, p pool) (netip.Addr, bool) {
	if !p.first.Is4() || !p.last.Is4() || p.last.Less(p.first) {
		return netip.Addr{}, false
	}
	first, last := number(p.first), number(p.last)
	size := uint64(last-first) + 1
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(mac)) // it never fails
	for i := range min(size, 2*maxLeases) {
		address := fromNumber(first + uint32((sum.Sum64()+i)%size))
		if other := l.byAddress[address]; (other == nil || !now.Before(other.until)) && !p.isTaken(address) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func fromNumber(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}
