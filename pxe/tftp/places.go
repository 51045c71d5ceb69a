// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// places gives out a bounded number of transfers: to who asks, in the order of
// asking, but for addresses that have many already. It is guarded by its owner.
type places struct {
	max, maxWaiting int
	// slowAfter: see Server.SlowAfter.
	slowAfter time.Duration
	// active are the transfers by client; a client is an address and a port.
	active map[netip.AddrPort]*session
	// held counts them by address.
	held    map[netip.Addr]int
	waiting []waiting
	closed  bool
}

// session is one client's transfer.
type session struct {
	from netip.AddrPort
	req  readRequest
	// ctx ends when the client asked for something else, or others need the place.
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time
	// looked is since when its rate is measured, and had what was acknowledged by then.
	looked time.Time
	had    int64
	// link is set once the transfer runs.
	link link
	// repeat: it began with a request that may have been a mere repeat.
	repeat bool
	// answered: a packet of the client has come, so it is no made-up address.
	answered atomic.Bool
	// ending: all but the last acknowledgement is there.
	ending atomic.Bool
	// acknowledged counts the bytes that the client has.
	acknowledged atomic.Int64
	// replaced: the client asked for something else before the end.
	replaced atomic.Bool
	// then is what the client asked for last, to be begun when this has ended.
	then *readRequest
}

// waiting is a request without a place.
type waiting struct {
	from netip.AddrPort
	req  readRequest
	// asked is when the client asked for it last; again: it did so before.
	asked time.Time
	again bool
	// repeat: see session.
	repeat bool
}

// silentLimit is how long a client that has never answered keeps its place from
// others.
const silentLimit = 3 * time.Second

// slowRate is the least that a client has to take to keep its place from others, in bytes
// a second: eight blocks of 512 bytes.
const slowRate = 4 << 10

func newPlaces(most, mostWaiting int, slowAfter time.Duration) places {
	return places{max: most, maxWaiting: mostWaiting, slowAfter: slowAfter, active: map[netip.AddrPort]*session{}, held: map[netip.Addr]int{}}
}

// close lets nobody in any more.
func (p *places) close() { p.closed, p.waiting = true, nil }

// repeated says whether the request is of a client that is known, and takes note
// of it.
//
// The same request again is a repeat of a packet (our answer crossed it), unless
// the transfer needs only its last acknowledgement: then that may be behind the
// request, and the client wants the file once more. Another request means that
// the client has given the first one up, as UEFI does after asking for the size
// only: it may come before its ERROR has been seen.
func (p *places) repeated(from netip.AddrPort, req readRequest) bool {
	if s, ok := p.active[from]; ok {
		switch other := !sameRequest(s.req, req); {
		case other:
			s.then = &req
			s.replaced.Store(true)
			s.cancel(errGone)
		case s.ending.Load():
			s.then = &req
		}
		return true
	}
	i := slices.IndexFunc(p.waiting, func(w waiting) bool { return w.from == from })
	if i < 0 || !sameRequest(p.waiting[i].req, req) {
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		return false
	}
	now := time.Now()
	p.waiting[i].asked, p.waiting[i].again = now, true
	p.makeRoom(from.Addr(), now)
	return true
}

func sameRequest(a, b readRequest) bool {
	return a.name == b.name && slices.Equal(a.options, b.options)
}

// placing is what a request is given.
type placing int

const (
	// placeNow: a transfer.
	placeNow placing = iota
	// placeLater: a place in the queue.
	placeLater
	// placeNever: the queue is full.
	placeNever
	// placeClosed: the server ends. The client repeats its request, and another
	// may be there by then.
	placeClosed
)

// waits counts the requests of an address that wait: one client does not fill the queue.
func (p *places) waits(of netip.Addr) int {
	n := 0
	for i := range p.waiting {
		if p.waiting[i].from.Addr() == of {
			n++
		}
	}
	return n
}

// take returns a session if there is a place.
func (p *places) take(from netip.AddrPort, req readRequest) (*session, placing) {
	switch {
	case p.closed:
		return nil, placeClosed
	case len(p.active) < p.max && p.held[from.Addr()] < p.share():
		return p.begin(waiting{from: from, req: req}), placeNow
	case len(p.waiting) >= p.maxWaiting || p.waits(from.Addr()) >= max(p.maxWaiting/4, 1):
		return nil, placeNever
	}
	now := time.Now()
	p.waiting = append(p.waiting, waiting{from: from, req: req, asked: now})
	p.makeRoom(from.Addr(), now)
	return nil, placeLater
}

// makeRoom ends a transfer, if there is one that may be ended for a client that waits:
// a slow one only where its place would be of use to that client.
func (p *places) makeRoom(client netip.Addr, now time.Time) {
	if p.clearSilent(now) || len(p.active) < p.max || p.held[client] >= p.share() {
		return
	}
	p.clearSlow(now)
}

// clearSilent ends a transfer whose client has never answered, so that requests
// under false addresses do not hold all places.
func (p *places) clearSilent(now time.Time) bool {
	for _, s := range p.active {
		if !s.answered.Load() && now.Sub(s.began) > silentLimit {
			s.cancel(errGone)
			return true
		}
	}
	return false
}

// clearSlow ends the slowest of the transfers that hardly move, so that a few clients that
// acknowledge now and then do not hold all places.
func (p *places) clearSlow(now time.Time) {
	var slowest *session
	least := float64(slowRate)
	for _, s := range p.active {
		if s.ctx.Err() != nil {
			return // its place is about to be free
		}
		if rate, known := s.rate(now, p.slowAfter); known && rate < least {
			slowest, least = s, rate
		}
	}
	if slowest != nil {
		slowest.cancel(errSlow)
	}
}

// rate is what the client has taken since the last look that found it fast enough, in
// bytes a second. False: that was a moment ago.
func (s *session) rate(now time.Time, moment time.Duration) (float64, bool) {
	measured, acknowledged := now.Sub(s.looked), s.acknowledged.Load()
	if measured < moment {
		return 0, false
	}
	rate := float64(acknowledged-s.had) / measured.Seconds()
	if rate >= slowRate {
		s.looked, s.had = now, acknowledged
	}
	return rate, true
}

// share is how many places one address may hold.
func (p *places) share() int { return max(1, p.max/shareOfOne) }

func (p *places) begin(w waiting) *session {
	now := time.Now()
	s := &session{from: w.from, req: w.req, repeat: w.repeat, began: now, looked: now}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	p.active[w.from] = s
	p.held[w.from.Addr()]++
	return s
}

// free gives a place back. What the client asked for meanwhile is first in the
// queue.
func (p *places) free(s *session) {
	s.cancel(nil)
	delete(p.active, s.from)
	if p.held[s.from.Addr()]--; p.held[s.from.Addr()] == 0 {
		delete(p.held, s.from.Addr())
	}
	if s.then != nil && !p.closed {
		p.waiting = slices.Insert(p.waiting, 0, waiting{from: s.from, req: *s.then, asked: time.Now(), repeat: !s.replaced.Load()})
	}
}

// next begins the transfer of the first that waits and may have a place, and
// returns those that have waited too long without asking again. Who has asked
// again comes before the others: made-up clients do not.
func (p *places) next(now time.Time) (gone []waiting, begun *session) {
	p.waiting = slices.DeleteFunc(p.waiting, func(w waiting) bool {
		late := now.Sub(w.asked) > waitLimit
		if late {
			gone = append(gone, w)
		}
		return late
	})
	if len(p.active) >= p.max || p.closed {
		return gone, nil
	}
	may := func(w waiting) bool { return p.held[w.from.Addr()] < p.share() }
	i := slices.IndexFunc(p.waiting, func(w waiting) bool { return w.again && may(w) })
	if i < 0 {
		i = slices.IndexFunc(p.waiting, may)
	}
	if i < 0 {
		return gone, nil
	}
	w := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return gone, p.begin(w)
}
