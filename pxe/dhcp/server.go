// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

// Server answers DHCP requests on a socket that it is given.
type Server struct {
	Identity  Identity
	Directory pxe.Directory
	// Observer may be nil.
	Observer pxe.Observer
	// Log may be nil. Nothing that an unknown client sends is logged above
	// debug level.
	Log *slog.Logger
}

// maxPacket is the longest request worth reading; the rest of a longer one is
// cut off, which makes it malformed.
const maxPacket = 2048

// Serve answers DHCP on a socket that is bound to port 67, until ctx ends or the
// socket breaks, and closes the socket. It reads and answers in one goroutine: an exchange takes microseconds, and a
// queue could only grow stale. A nil error means that ctx ended.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, func(packet []byte, _ netip.AddrPort) (Answer, error) {
		return Reply(s.Identity, s.Directory, packet)
	})
}

// ServeBINL answers questions for boot files on a socket that is bound to port
// 4011, as Serve does on port 67.
func (s *Server) ServeBINL(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, func(packet []byte, from netip.AddrPort) (Answer, error) {
		return ReplyBINL(s.Identity, s.Directory, packet, from)
	})
}

// reply is a reply function: Reply or ReplyBINL.
type reply func(packet []byte, from netip.AddrPort) (Answer, error)

func (s *Server) serve(ctx context.Context, conn net.PacketConn, decide reply) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	buf := make([]byte, maxPacket)
	for {
		n, from, err := conn.ReadFrom(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read DHCP request: %w", err)
		case err != nil:
			// ICMP errors of earlier answers surface here; they are not ours.
			s.log().Debug("DHCP read failed", "error", err)
			if !pause(ctx) {
				return nil
			}
			continue
		}
		s.handle(conn, from, buf[:n], decide)
	}
}

// pause keeps a socket that fails at once, again and again, from taking a
// whole processor. False: ctx ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// handle answers one packet. A packet that makes the parser panic costs its
// sender an answer, not everybody their boot server.
func (s *Server) handle(conn net.PacketConn, from net.Addr, packet []byte, decide reply) {
	defer func() {
		if p := recover(); p != nil {
			s.log().Error("DHCP request caused a panic", "from", from, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	source, _ := netip.ParseAddrPort(from.String()) // only BINL looks at it
	answer, err := decide(packet, source)
	if err != nil {
		s.log().Debug("DHCP request dropped", "from", from, "error", err)
		return
	}
	event := answer.Event
	if answer.Packet != nil {
		if _, err := conn.WriteTo(answer.Packet, net.UDPAddrFromAddrPort(answer.To)); err != nil {
			event.Stage = pxe.StageFailed
			event.Detail = fmt.Sprintf("send DHCP reply to %s: %v", answer.To, err)
		}
	}
	if s.Observer != nil && event.Stage != "" {
		event.At = time.Now()
		s.Observer.Observe(event)
	}
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}
