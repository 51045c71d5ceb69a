// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// offered is how long an address is kept for a machine that was offered it.
	offered = 30 * time.Second
	// visit is how long a machine that took it may boot and report: longer than its
	// agent tries to.
	visit = 20 * time.Minute
	// again is how long after a visit's begin the machine is not let in again: it goes
	// on to boot something else meanwhile.
	again = time.Hour
	// rests is how long an address is not lent that a guest declined (as in package dhcp).
	rests = 10 * time.Minute
	// maxGuests bounds the machines of one network that report at once, and
	// maxRemembered those that are remembered.
	maxGuests     = 256
	maxRemembered = 4096
)

// guests are the unknown machines of one network that were lent an address. What is
// remembered is bounded, whoever asks. The zero value is ready.
type guests struct {
	mu        sync.Mutex
	byMAC     map[string]*guest
	byAddress map[netip.Addr]*guest
	// places is how many more may be let in, at the time filled.
	places float64
	filled time.Time
}

// guest is one machine.
type guest struct {
	mac     string
	address netip.Addr
	// until when the address is its own; refused: not before then is it let in again.
	until, refused time.Time
	// arrived: its agent was here, and its firmware has nothing more to ask for.
	arrived bool
}

// house is what a network allows.
type house struct {
	first, last netip.Addr
	perMinute   int
	// admits is asked once before a machine is let in; taken says that an address is
	// somebody's.
	admits func() bool
	taken  func(netip.Addr) bool
}

// lend returns the address for a machine; false: none.
func (g *guests) lend(now time.Time, s pxe.Stranger, h house) (netip.Addr, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mac := string(s.MAC)
	known := g.byMAC[mac]
	if known != nil && !now.Before(known.until) && !now.Before(known.refused) {
		g.forget(known)
		known = nil
	}
	switch {
	case s.Declines.IsValid():
		if known != nil && known.address == s.Declines && now.Before(known.until) {
			g.rest(now, known)
		}
		return netip.Addr{}, false
	case s.Elsewhere:
		g.learn(now, known, s, h)
		return netip.Addr{}, false
	case known != nil && !now.Before(known.until), known != nil && known.arrived && !s.Agent && !s.Client.IsValid():
		return netip.Addr{}, false
	case s.Client.IsValid():
		return s.Client, known != nil && known.address == s.Client && !known.arrived
	case known == nil && s.Agent:
		return netip.Addr{}, false
	case known == nil:
		if known = g.admit(now, mac, h); known == nil {
			return netip.Addr{}, false
		}
	}
	if s.Takes == known.address {
		known.stay(now)
	}
	known.arrived = known.arrived || s.Agent
	return known.address, true
}

// stay begins the visit of a guest that takes its address.
func (g *guest) stay(now time.Time) {
	if g.refused.IsZero() {
		g.until, g.refused = now.Add(visit), now.Add(again)
	}
}

// learn keeps in mind that a machine takes the address that another replica lent it:
// requests are broadcasts, and so replicas do not lend one address twice.
func (g *guests) learn(now time.Time, known *guest, s pxe.Stranger, h house) {
	if s.Takes.Less(h.first) || h.last.Less(s.Takes) {
		return
	}
	if known != nil && known.address == s.Takes {
		known.stay(now)
		return
	}
	if other := g.byAddress[s.Takes]; other != nil && now.Before(other.until) {
		return
	}
	if known != nil && !known.refused.IsZero() {
		return // it visits, or has: a packet that says otherwise changes nothing of that
	}
	if !h.admits() || !g.place(now, h) {
		return
	}
	if known != nil {
		g.forget(known)
	}
	g.keep(&guest{mac: string(s.MAC), address: s.Takes}).stay(now)
}

// rest keeps an address from being lent for a while, because its guest found it to be
// another's. The guest may have another one.
func (g *guests) rest(now time.Time, one *guest) {
	g.forget(one)
	g.keep(&guest{mac: "rests " + one.address.String(), address: one.address, until: now.Add(rests), refused: now.Add(rests)})
}

// admit lets a machine in; nil: not now.
func (g *guests) admit(now time.Time, mac string, h house) *guest {
	if !g.open(now, h) || !h.admits() {
		return nil
	}
	address, ok := g.free(now, mac, h)
	if !ok || !g.place(now, h) {
		return nil
	}
	return g.keep(&guest{mac: mac, address: address, until: now.Add(offered)})
}

// open says whether there is a place, and takes none.
func (g *guests) open(now time.Time, h house) bool {
	full := float64(h.perMinute)
	if g.filled.IsZero() {
		g.places = full
	} else {
		g.places = min(full, g.places+now.Sub(g.filled).Minutes()*full)
	}
	g.filled = now
	return g.places >= 1
}

// place takes a place, once those who left are forgotten.
func (g *guests) place(now time.Time, h house) bool {
	if !g.open(now, h) {
		return false
	}
	staying := 0
	for _, other := range g.byMAC {
		switch {
		case now.Before(other.until):
			staying++
		case !now.Before(other.refused):
			g.forget(other)
		}
	}
	if staying >= maxGuests || len(g.byMAC) >= maxRemembered {
		return false
	}
	g.places--
	return true
}

func (g *guests) keep(one *guest) *guest {
	if g.byMAC == nil {
		g.byMAC, g.byAddress = map[string]*guest{}, map[netip.Addr]*guest{}
	}
	g.byMAC[one.mac], g.byAddress[one.address] = one, one
	return one
}

func (g *guests) forget(one *guest) {
	delete(g.byMAC, one.mac)
	if g.byAddress[one.address] == one {
		delete(g.byAddress, one.address)
	}
}

// free finds an address. The search begins where a hash of the MAC address points to,
// so that replicas most often lend a machine the same.
func (g *guests) free(now time.Time, mac string, h house) (netip.Addr, bool) {
	if !h.first.Is4() || !h.last.Is4() || h.last.Less(h.first) {
		return netip.Addr{}, false
	}
	first, last := number(h.first), number(h.last)
	size := uint64(last-first) + 1
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(mac)) // it never fails
	for i := range min(size, 2*maxGuests) {
		address := fromNumber(first + uint32((sum.Sum64()+i)%size))
		if other := g.byAddress[address]; (other == nil || !now.Before(other.until)) && !h.taken(address) {
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
