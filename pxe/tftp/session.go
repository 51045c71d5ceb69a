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

// waitLimit is how long a request waits for a slot. Firmware repeats a request after 1 to 5 s
// and gives up after about a minute.
const waitLimit = time.Minute

const (
	// shareOfOne divides the slots and the waiting requests for one address, so that a
	// broken client does not starve the others.
	shareOfOne = 4
	// inboxSize is the number of queued packets per transfer in single-port mode.
	inboxSize = 8
)

// Reasons for which a session ends early or is not admitted.
var (
	errFull     = errors.New("too many transfers")
	errStopping = errors.New("the server is stopping")
	errReplaced = fmt.Errorf("%w: it requested another file", errGone)
)

// serving is the state of one call of Server.Serve.
type serving struct {
	Server
	conn net.PacketConn
	// stopping ends when the server admits no more sessions. ctx ends when it aborts running ones.
	stopping, ctx context.Context
	transfers     sync.WaitGroup
	running       *semaphore.Weighted

	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	clients  map[netip.Addr]*client
}

func newServing(s Server, conn net.PacketConn, stopping, ctx context.Context) *serving {
	return &serving{Server: s, conn: conn, stopping: stopping, ctx: ctx, running: semaphore.NewWeighted(int64(s.MaxTransfers)),
		sessions: map[netip.AddrPort]*session{}, clients: map[netip.Addr]*client{}}
}

type client struct {
	running  *semaphore.Weighted
	sessions int // running and waiting
}

// session is one request for a file, from its arrival to the end of its transfer. A client
// address and port has one session at a time.
type session struct {
	from   netip.AddrPort
	req    readRequest
	client *client
	// ctx ends when the client requests another file or the server aborts.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// mayRepeat is true if the request may have been a repeated packet.
	mayRepeat bool
	// ending is set while only the last acknowledgment is missing.
	ending atomic.Bool
	// inbox holds packets of the client in single-port mode.
	inbox chan []byte
	// next is the request to serve after this session. It is guarded by serving.mu.
	next *readRequest
}

func (s *session) isReplaced() bool { return errors.Is(context.Cause(s.ctx), errReplaced) }

// repeated reports whether the client already has a session. If the client wants another file
// or the same file again, repeated stores the request in that session.
//
// An identical request is a repeated packet that crossed the answer. But if only the last
// acknowledgment of the transfer is missing, the client may want the file a second time. A
// different request means that the client gave up the first one, as UEFI does after it asked
// for the size. Such a request may overtake the client's ERROR.
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

// acquire waits for a slot in the order of requests. It returns false after waitLimit, or when
// the session ends or the server stops.
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

// end removes a session and returns its next request, or nil.
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

// deliver passes a packet to the client's session in single-port mode and reports whether there
// is one. It drops the packet if the inbox is full.
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
