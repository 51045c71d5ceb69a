// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// DefaultMaxTransfers bounds concurrent transfers.
	DefaultMaxTransfers = 512
	// DefaultMaxBlockSize fits an Ethernet frame: 1500 less the IP, UDP and
	// TFTP headers. Firmware cannot always reassemble fragments.
	DefaultMaxBlockSize = 1468
	// DefaultTimeout is the first wait for an acknowledgement; it doubles.
	DefaultTimeout = time.Second
	// DefaultRetries is how often one window is sent again.
	DefaultRetries = 5
)

// Server serves files on a socket that it is given.
type Server struct {
	// Files is what can be read. Required.
	Files Files
	// Absent are names that clients are given on purpose and that Files does
	// not have: they are refused like any other, but that is no failure.
	Absent []string
	// ListenTransfer opens the socket for one transfer: on the server's
	// address, any free port (RFC 1350 §4: each transfer has its own). Required.
	ListenTransfer func() (net.PacketConn, error)
	// MaxTransfers, MaxBlockSize (bytes), Timeout and Retries: 0 means the
	// default above.
	MaxTransfers, MaxBlockSize, Retries int
	Timeout                             time.Duration
	// Observer and Log may be nil.
	Observer pxe.Observer
	Log      *slog.Logger
}

// Serve answers read requests until ctx ends or the socket breaks, and closes
// the socket. All transfers have ended when it returns. A nil error means that
// ctx ended.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	ctx, cancel := context.WithCancel(ctx)
	run := serving{Server: s, ctx: ctx, conn: conn, active: map[string]struct{}{}}
	defer run.transfers.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFrom(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read TFTP request: %w", err)
		case err != nil:
			s.log().Debug("TFTP read failed", "error", err)
			select {
			case <-time.After(10 * time.Millisecond): // not a hot loop
			case <-ctx.Done():
				return nil
			}
			continue
		}
		run.request(from, buf[:n])
	}
}

// serving is the state of one Serve.
type serving struct {
	*Server
	ctx       context.Context
	conn      net.PacketConn
	transfers sync.WaitGroup
	mu        sync.Mutex
	// active holds the clients with a transfer, so that a repeated request
	// does not start a second one.
	active map[string]struct{}
}

func (s *serving) request(from net.Addr, packet []byte) {
	req, err := parseRequest(packet)
	if err != nil {
		s.log().Debug("TFTP request dropped", "from", from, "error", err)
		// Never answer an error with an error: two servers could play ping-pong.
		if len(packet) >= 2 && binary.BigEndian.Uint16(packet) == opWrite {
			s.refuse(from, codeIllegal, "this server is read-only")
		}
		return
	}
	if req.mode != "octet" {
		s.refuse(from, codeIllegal, "only octet mode is served")
		return
	}
	if !s.begin(from) {
		return
	}
	s.transfers.Add(1)
	go func() {
		defer s.transfers.Done()
		defer s.end(from)
		s.serve(from, req)
	}()
}

// begin takes a place for a client. Without a free one the request is dropped:
// the client asks again in a second or so, when another may be done.
func (s *serving) begin(from net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := from.String()
	if _, busy := s.active[key]; busy || len(s.active) >= orDefault(s.MaxTransfers, DefaultMaxTransfers) {
		return false
	}
	s.active[key] = struct{}{}
	return true
}

func (s *serving) end(from net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, from.String())
}

// serve runs one transfer and tells how it went. A panic ends this transfer
// only.
func (s *serving) serve(from net.Addr, req readRequest) {
	defer func() {
		if p := recover(); p != nil {
			s.log().Error("TFTP transfer panicked", "from", from, "file", req.name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	err := s.send(from, req)
	switch {
	case s.ctx.Err() != nil:
	case err == nil:
		s.observe(from, pxe.StageLoader, req.name)
	case errors.Is(err, fs.ErrNotExist) && slices.Contains(s.Absent, req.name):
		s.log().Debug("TFTP client sent on", "from", from, "file", req.name)
	case errors.Is(err, errAborted):
		s.log().Debug("TFTP transfer ended by the client", "from", from, "file", req.name, "error", err)
	default:
		s.observe(from, pxe.StageFailed, fmt.Sprintf("TFTP %q: %v", req.name, err))
	}
}

func (s *serving) send(from net.Addr, req readRequest) error {
	file, err := s.Files.Open(req.name)
	if err != nil {
		code, text := uint16(codeUndefined), "cannot be read"
		if errors.Is(err, fs.ErrNotExist) {
			code, text = codeNotFound, "not found"
		}
		s.refuse(from, code, text)
		return err
	}
	defer func() { _ = file.Close() }()
	conn, err := s.ListenTransfer()
	if err != nil {
		return fmt.Errorf("open transfer socket: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	defer stop()
	maxBlock := orDefault(s.MaxBlockSize, DefaultMaxBlockSize)
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	t := transfer{
		conn: conn, client: from, file: file,
		terms:   negotiate(req, file.Size(), maxBlock, timeout),
		retries: orDefault(s.Retries, DefaultRetries),
	}
	return t.run()
}

func (s *serving) refuse(to net.Addr, code uint16, text string) {
	if _, err := s.conn.WriteTo(encodeError(code, text), to); err != nil {
		s.log().Debug("TFTP error not sent", "to", to, "error", err)
	}
}

func (s *serving) observe(from net.Addr, stage pxe.Stage, detail string) {
	if s.Observer == nil {
		return
	}
	e := pxe.BootEvent{Stage: stage, Detail: detail, At: time.Now()}
	if ap, err := netip.ParseAddrPort(from.String()); err == nil {
		e.Client = ap.Addr().Unmap()
	}
	s.Observer.Observe(e)
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

func orDefault(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}
