// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// waitLimit is how long a request waits for a slot. Firmware repeats a request within 1 to
// 5 s, and gives up after about a minute.
const waitLimit = time.Minute

// The reasons for which a session ends early, or is not admitted.
var (
	errFull     = errors.New("too many transfers")
	errStopping = errors.New("the server stops")
	errReplaced = fmt.Errorf("%w: it asked for another file", errGone)
)

// slots bounds how many transfers run at once, in total and for each client address.
type slots struct {
	total, perAddress int
	// maxWaiting bounds the sessions that wait. A quarter of them may be of one address.
	maxWaiting int
	running    *semaphore.Weighted
	// stopping ends when the server admits no more sessions. Those that wait end as well.
	stopping context.Context

	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	clients  map[netip.Addr]*client
}

// client is a client address with its share of the slots.
type client struct {
	running *semaphore.Weighted
	// sessions counts those that run or wait.
	sessions int
}

// session is one request for a file, from its arrival to the end of its transfer. A client
// address and port has one session at a time.
type session struct {
	from   netip.AddrPort
	req    readRequest
	client *client
	// ctx ends when the client asks for another file, or the server aborts.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// mayRepeat: the request may have been a repeated packet.
	mayRepeat bool
	// ending is set while only the last acknowledgment is missing.
	ending atomic.Bool
	// link is set in single-port mode while the transfer runs, and next is the request to
	// serve when this session has ended. slots.mu guards both.
	link *sharedSocket
	next *readRequest
}

func (s *session) replaced() bool { return errors.Is(context.Cause(s.ctx), errReplaced) }

func newSlots(stopping context.Context, total, maxWaiting int) *slots {
	return &slots{
		total: total, perAddress: max(1, total/shareOfOne), maxWaiting: maxWaiting, running: semaphore.NewWeighted(int64(total)),
		stopping: stopping, sessions: map[netip.AddrPort]*session{}, clients: map[netip.Addr]*client{},
	}
}

// repeated reports whether the client already has a session, and records in it what the
// client wants next.
//
// The same request again is a repeated packet (the answer crossed it), unless the transfer
// lacks only its last acknowledgment: then that packet may follow, and the client wants the
// file a second time. Another request means that the client gave up the first one, as UEFI
// does after it asked for the size only; it may overtake the client's ERROR.
func (s *slots) repeated(from netip.AddrPort, req readRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.sessions[from]
	if !ok {
		return false
	}
	switch other := known.req.name != req.name || !slices.Equal(known.req.options, req.options); {
	case other:
		known.next = &req
		known.cancel(errReplaced)
	case known.ending.Load():
		known.next = &req
	}
	return true
}

// admit registers a session for a request. It fails with errFull or errStopping.
func (s *slots) admit(ctx context.Context, from netip.AddrPort, req readRequest) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() != nil {
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

// acquire waits for a slot, first come, first served. It returns false after waitLimit, or
// when the session ends or the server stops.
func (s *slots) acquire(session *session) bool {
	ctx, cancel := context.WithTimeout(session.ctx, waitLimit)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if session.client.running.Acquire(ctx, 1) != nil {
		return false
	}
	if s.running.Acquire(ctx, 1) != nil {
		session.client.running.Release(1)
		return false
	}
	return true
}

func (s *slots) release(session *session) {
	session.client.running.Release(1)
	s.running.Release(1)
}

// end forgets a session, and returns the request that its client sent meanwhile, or nil.
func (s *slots) end(session *session) *readRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.cancel(nil)
	delete(s.sessions, session.from)
	if session.client.sessions--; session.client.sessions == 0 {
		delete(s.clients, session.from.Addr())
	}
	return session.next
}

// setLink records the link of a session's transfer in single-port mode.
func (s *slots) setLink(session *session, link *sharedSocket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.link = link
}

// link returns the link of the client's transfer in single-port mode, or nil.
func (s *slots) link(from netip.AddrPort) *sharedSocket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[from]; session != nil {
		return session.link
	}
	return nil
}
