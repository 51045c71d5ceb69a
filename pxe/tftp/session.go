// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"errors"
	"fmt"
	"net"
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

const (
	// shareOfOne divides the slots, and the places of those that wait, for one address: a
	// broken client must not starve the others.
	shareOfOne = 4
	// inboxSize is how many packets wait for a transfer in single-port mode.
	inboxSize = 8
)

// The reasons for which a session ends early, or is not admitted.
var (
	errFull     = errors.New("too many transfers")
	errStopping = errors.New("the server stops")
	errReplaced = fmt.Errorf("%w: it asked for another file", errGone)
)

// serving is the state of one Server.Serve.
type serving struct {
	Server
	conn net.PacketConn
	// stopping ends when the server admits no more sessions, and ctx when it aborts those
	// that run.
	stopping, ctx context.Context
	transfers     sync.WaitGroup
	// running bounds the transfers that run at once.
	running *semaphore.Weighted

	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	clients  map[netip.Addr]*client
}

func newServing(s Server, conn net.PacketConn, stopping, ctx context.Context) *serving {
	return &serving{Server: s, conn: conn, stopping: stopping, ctx: ctx, running: semaphore.NewWeighted(int64(s.MaxTransfers)),
		sessions: map[netip.AddrPort]*session{}, clients: map[netip.Addr]*client{}}
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
	// inbox holds packets of the client in single-port mode.
	inbox chan []byte
	// next is the request to serve when this session has ended, guarded by serving.mu.
	next *readRequest
}

func (s *session) replaced() bool { return errors.Is(context.Cause(s.ctx), errReplaced) }

// repeated reports whether the client already has a session, and records in it what the
// client wants next.
//
// The same request again is a repeated packet (the answer crossed it), unless the transfer
// lacks only its last acknowledgment: then that packet may follow, and the client wants the
// file a second time. Another request means that the client gave up the first one, as UEFI
// does after it asked for the size only; it may overtake the client's ERROR.
func (s *serving) repeated(from netip.AddrPort, req readRequest) bool {
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
func (s *serving) admit(from netip.AddrPort, req readRequest) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() != nil {
		return nil, errStopping
	}
	share := max(1, s.MaxTransfers/shareOfOne)
	c := s.clients[from.Addr()]
	if c == nil {
		c = &client{running: semaphore.NewWeighted(int64(share))}
	}
	if len(s.sessions) >= s.MaxTransfers+s.MaxWaiting || c.sessions >= share+max(1, s.MaxWaiting/shareOfOne) {
		return nil, errFull
	}
	c.sessions++
	s.clients[from.Addr()] = c
	session := &session{from: from, req: req, client: c}
	if s.SinglePort {
		session.inbox = make(chan []byte, inboxSize)
	}
	session.ctx, session.cancel = context.WithCancelCause(s.ctx)
	s.sessions[from] = session
	return session, nil
}

// acquire waits for a slot, first come, first served. It returns false after waitLimit, or
// when the session ends or the server stops.
func (s *serving) acquire(session *session) bool {
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

func (s *serving) release(session *session) {
	session.client.running.Release(1)
	s.running.Release(1)
}

// end forgets a session, and returns the request that its client sent meanwhile, or nil.
func (s *serving) end(session *session) *readRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.cancel(nil)
	delete(s.sessions, session.from)
	if session.client.sessions--; session.client.sessions == 0 {
		delete(s.clients, session.from.Addr())
	}
	return session.next
}

// deliver hands a packet to the client's session in single-port mode, and reports whether
// there is one. It drops the packet if the transfer lags behind.
func (s *serving) deliver(from netip.AddrPort, p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[from]
	if !s.SinglePort || session == nil || opcode(p) == opRead {
		return false
	}
	select {
	case session.inbox <- slices.Clone(p):
	default:
	}
	return true
}
