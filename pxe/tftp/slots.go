// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// slots bounds how many transfers run at once, in total and for each client address.
type slots struct {
	total, perAddress int
	// maxWaiting bounds the sessions that wait, of one address a quarter of them.
	maxWaiting int
	running    *semaphore.Weighted

	mu       sync.Mutex
	closed   bool
	sessions map[netip.AddrPort]*session
	clients  map[netip.Addr]*client
}

// client is one client address with its share of the slots.
type client struct {
	running *semaphore.Weighted
	// sessions counts those that run or wait.
	sessions int
}

// session is one request for a file, from its arrival to the end of its transfer. A
// client address and port has one session at a time.
type session struct {
	from   netip.AddrPort
	req    readRequest
	client *client
	// ctx ends when the client asked for another file, or the server stops.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// link is set once the transfer runs, guarded by slots.mu.
	link link
	// mayRepeat: the session began with a request that may have been a repeated packet.
	mayRepeat bool
	// ending: only the last acknowledgement is missing.
	ending atomic.Bool
	// replaced: the client asked for another file before the end.
	replaced atomic.Bool
	// next is the request to serve when this session has ended, guarded by slots.mu.
	next *readRequest
}

func newSlots(total, maxWaiting int) *slots {
	return &slots{
		total: total, perAddress: max(1, total/shareOfOne), maxWaiting: maxWaiting, running: semaphore.NewWeighted(int64(total)),
		sessions: map[netip.AddrPort]*session{}, clients: map[netip.Addr]*client{},
	}
}

// close admits no more sessions, and ends those that wait.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, session := range s.sessions {
		if session.link == nil {
			session.cancel(errGone)
		}
	}
}

// begin records the link over which a session's transfer runs.
func (s *slots) begin(session *session, over link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.link = over
}

// repeated reports whether the client already has a session, and records in it what the
// client wants next.
//
// The same request again is a repeated packet (the answer crossed it), unless the transfer
// lacks only its last acknowledgement: then that packet may follow, and the client wants
// the file a second time. Another request means that the client gave up the first one, as
// UEFI does after it asked for the size only; it may overtake the client's ERROR.
func (s *slots) repeated(from netip.AddrPort, req readRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.sessions[from]
	if !ok {
		return false
	}
	switch other := !sameRequest(known.req, req); {
	case other:
		known.next = &req
		known.replaced.Store(true)
		known.cancel(errGone)
	case known.ending.Load():
		known.next = &req
	}
	return true
}

func sameRequest(a, b readRequest) bool {
	return a.name == b.name && slices.Equal(a.options, b.options)
}

// errFull and errStopping say why a request is not admitted.
var (
	errFull     = errors.New("too many transfers")
	errStopping = errors.New("the server stops")
)

// admit registers a session for a request. It fails with errFull or errStopping.
func (s *slots) admit(ctx context.Context, from netip.AddrPort, req readRequest) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStopping
	}
	c := s.clients[from.Addr()]
	if c == nil {
		c = &client{running: semaphore.NewWeighted(int64(s.perAddress))}
	}
	if len(s.sessions) >= s.total+s.maxWaiting || c.sessions >= s.perAddress+max(s.maxWaiting/shareOfOne, 1) {
		return nil, errFull
	}
	c.sessions++
	s.clients[from.Addr()] = c
	session := &session{from: from, req: req, client: c}
	session.ctx, session.cancel = context.WithCancelCause(ctx)
	s.sessions[from] = session
	return session, nil
}

// try acquires a slot for a session if one is free.
func (s *slots) try(session *session) bool {
	if !session.client.running.TryAcquire(1) {
		return false
	}
	if !s.running.TryAcquire(1) {
		session.client.running.Release(1)
		return false
	}
	return true
}

// wait acquires a slot for a session, first come, first served, or returns false after
// waitLimit or when the session ends.
func (s *slots) wait(session *session) bool {
	ctx, cancel := context.WithTimeout(session.ctx, waitLimit)
	defer cancel()
	if session.client.running.Acquire(ctx, 1) != nil {
		return false
	}
	if s.running.Acquire(ctx, 1) != nil {
		session.client.running.Release(1)
		return false
	}
	return true
}

// release returns the slot of a session.
func (s *slots) release(session *session) {
	session.client.running.Release(1)
	s.running.Release(1)
}

// end forgets a session, and returns the request that its client sent meanwhile, or nil.
func (s *slots) end(session *session) *readRequest {
	session.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session.from] == session {
		delete(s.sessions, session.from)
	}
	if session.client.sessions--; session.client.sessions == 0 {
		delete(s.clients, session.from.Addr())
	}
	return session.next
}

// shared returns the link of the client's transfer if the transfer uses the server's own
// socket, or nil.
func (s *slots) shared(from netip.AddrPort) *sharedSocket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[from]; session != nil {
		shared, _ := session.link.(*sharedSocket)
		return shared
	}
	return nil
}

// waitLimit is how long a request waits for a slot. Firmware repeats a request within 1 to
// 5 s, and gives up after about a minute.
const waitLimit = time.Minute
