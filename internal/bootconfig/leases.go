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
	// leaseDuration is how long a client that took the address may boot and report: longer
	// than its agent tries to.
	leaseDuration = 20 * time.Minute
	// readmitAfter is how long after the start of a lease the client gets no other one: it
	// boots something else meanwhile.
	readmitAfter = time.Hour
	// declinedFor is how long an address is not offered that a client declined (as in
	// package dhcp).
	declinedFor = 10 * time.Minute
	// maxLeases bounds the clients of one network that report at once, and maxRemembered
	// those that are remembered.
	maxLeases     = 256
	maxRemembered = 4096
)

// leases are the addresses of one network that unknown clients have. The number of
// remembered clients is bounded. It is safe for concurrent use.
type leases struct {
	mu        sync.Mutex
	byMAC     map[string]*lease
	byAddress map[netip.Addr]*lease
	// rate limits how many clients get an address; its burst is that of one minute.
	rate *rate.Limiter
}

func newLeases() *leases {
	return &leases{byMAC: map[string]*lease{}, byAddress: map[netip.Addr]*lease{}}
}

// lease is the address of one client.
type lease struct {
	mac     string
	address netip.Addr
	// The client has the address until then; before readmit it gets no other.
	until, readmit time.Time
	// arrived: its agent was here, and its firmware has nothing more to ask for.
	arrived bool
}

// pool is what a network allows.
type pool struct {
	first, last netip.Addr
	perMinute   int
	// admits is asked once before a client gets an address; taken reports that an address is
	// in use.
	admits func() bool
	taken  func(netip.Addr) bool
}

// offer returns the address for a client, if there is one.
func (l *leases) offer(now time.Time, s pxe.Stranger, h pool) (netip.Addr, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mac := string(s.MAC)
	known := l.byMAC[mac]
	if known != nil && !now.Before(known.until) && !now.Before(known.readmit) {
		l.forget(known)
		known = nil
	}
	switch {
	case s.Declines.IsValid():
		if known != nil && known.address == s.Declines && now.Before(known.until) {
			l.decline(now, known)
		}
		return netip.Addr{}, false
	case s.Elsewhere:
		l.learn(now, known, s, h)
		return netip.Addr{}, false
	case known != nil && !now.Before(known.until), known != nil && known.arrived && !s.Agent && !s.Client.IsValid():
		return netip.Addr{}, false
	case s.Client.IsValid():
		return s.Client, known != nil && known.address == s.Client && !known.arrived
	case known == nil && s.Agent:
		return netip.Addr{}, false
	case known == nil:
		if known = l.admit(now, mac, h); known == nil {
			return netip.Addr{}, false
		}
	}
	if s.Takes == known.address {
		known.begin(now)
	}
	known.arrived = known.arrived || s.Agent
	return known.address, true
}

// begin starts the lease of a client that takes the address it was offered.
func (c *lease) begin(now time.Time) {
	if c.readmit.IsZero() {
		c.until, c.readmit = now.Add(leaseDuration), now.Add(readmitAfter)
	}
}

// learn remembers that a client takes the address that another replica offered it: requests
// are broadcasts, so that replicas do not offer one address twice.
func (l *leases) learn(now time.Time, known *lease, s pxe.Stranger, h pool) {
	if s.Takes.Less(h.first) || h.last.Less(s.Takes) {
		return
	}
	if known != nil && known.address == s.Takes {
		known.begin(now)
		return
	}
	if other := l.byAddress[s.Takes]; other != nil && now.Before(other.until) {
		return
	}
	if known != nil && !known.readmit.IsZero() {
		return // it has, or had, a lease: a packet that says otherwise changes nothing of that
	}
	if !h.admits() || !l.place(now, h) {
		return
	}
	if known != nil {
		l.forget(known)
	}
	l.keep(&lease{mac: string(s.MAC), address: s.Takes}).begin(now)
}

// decline keeps an address from being offered for a while, because its client found it in
// use (RFC 2131 section 4.3.3). The client may get another one.
func (l *leases) decline(now time.Time, one *lease) {
	l.forget(one)
	l.keep(&lease{mac: "declined " + one.address.String(), address: one.address, until: now.Add(declinedFor), readmit: now.Add(declinedFor)})
}

// admit gives a client an address; nil: not now.
func (l *leases) admit(now time.Time, mac string, h pool) *lease {
	if !l.open(now, h) || !h.admits() {
		return nil
	}
	address, ok := l.free(now, mac, h)
	if !ok || !l.place(now, h) {
		return nil
	}
	return l.keep(&lease{mac: mac, address: address, until: now.Add(offerDuration)})
}

// open reports whether the rate allows another client.
func (l *leases) open(now time.Time, h pool) bool {
	if l.rate == nil {
		l.rate = rate.NewLimiter(rate.Limit(h.perMinute)/60, h.perMinute)
	} else if l.rate.Burst() != h.perMinute {
		l.rate.SetBurstAt(now, h.perMinute)
		l.rate.SetLimitAt(now, rate.Limit(h.perMinute)/60)
	}
	return l.rate.TokensAt(now) >= 1
}

// place takes from the rate if there is room, after expired leases are forgotten.
func (l *leases) place(now time.Time, h pool) bool {
	if !l.open(now, h) {
		return false
	}
	staying := 0
	for _, other := range l.byMAC {
		switch {
		case now.Before(other.until):
			staying++
		case !now.Before(other.readmit):
			l.forget(other)
		}
	}
	if staying >= maxLeases || len(l.byMAC) >= maxRemembered {
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

// free finds an address. The search begins where a hash of the MAC address points to, so
// that replicas mostly offer a client the same one.
func (l *leases) free(now time.Time, mac string, h pool) (netip.Addr, bool) {
	if !h.first.Is4() || !h.last.Is4() || h.last.Less(h.first) {
		return netip.Addr{}, false
	}
	first, last := number(h.first), number(h.last)
	size := uint64(last-first) + 1
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(mac)) // it never fails
	for i := range min(size, 2*maxLeases) {
		address := fromNumber(first + uint32((sum.Sum64()+i)%size))
		if other := l.byAddress[address]; (other == nil || !now.Before(other.until)) && !h.taken(address) {
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
