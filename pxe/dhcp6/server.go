// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
)

// Server answers DHCPv6 requests. It must not be copied after its first use.
type Server struct {
	Identity  Identity
	Directory pxe.Directory
	// Observer, Metrics and Log may be nil. Nothing that an unknown client sends is
	// logged above debug level, and what is wrong with a known one once in ten
	// minutes.
	Observer pxe.Observer
	Metrics  *Metrics
	Log      *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	memory memory
}

// Conn is a socket that knows its interfaces: a *Socket, or a test's.
type Conn interface {
	// Receive reads one packet into buf, and says where it came in.
	Receive(buf []byte) (Query, error)
	// Send sends a reply to a packet that came in by link.
	Send(a Answer, link Link) error
	Close() error
}

const (
	// maxPacket is the longest request worth reading, in bytes.
	maxPacket = 4096
	// readers are few: an answer waits for nobody.
	readers = 2
)

// Serve answers until ctx ends or the socket breaks, and closes the socket. A nil
// error means that ctx ended.
func (s *Server) Serve(ctx context.Context, conn Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	var g errgroup.Group
	for range readers {
		g.Go(func() error { return s.read(ctx, conn) })
	}
	return g.Wait()
}

func (s *Server) read(ctx context.Context, conn Conn) error {
	buf := make([]byte, maxPacket)
	for {
		q, err := conn.Receive(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read DHCPv6 request: %w", err)
		case err != nil:
			// ICMP errors of earlier answers surface here; they are not ours.
			s.log().Debug("DHCPv6 read failed", "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond): // no busy loop when it fails again
			}
			continue
		}
		s.handle(conn, q)
	}
}

// handle answers one packet. One that makes the parser panic costs its sender an
// answer, not everybody their boot server.
func (s *Server) handle(conn Conn, q Query) {
	defer func() {
		if p := recover(); p != nil {
			s.log().Error("DHCPv6 message caused a panic", "from", q.From, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	answer, err := Reply(s.Identity, s.Directory, q)
	if err != nil {
		s.Metrics.count(0, outcomeMalformed)
		s.log().Debug("DHCPv6 request dropped", "from", q.From, "error", err)
		return
	}
	s.recall(&answer)
	if answer.Packet != nil {
		if err = conn.Send(answer, q.Link); err != nil {
			answer.Event.Stage = pxe.StageFailed
			answer.Event.Detail = fmt.Sprintf("send DHCPv6 reply to %s: %v", answer.To, err)
		}
	}
	s.Metrics.count(answer.kind, outcomeOf(answer, err))
	s.tell(answer)
}

// recall brings in what was heard before: an address that was declined is not given
// again for a while. Who has it renews it: a renewal asks for it by name.
func (s *Server) recall(a *Answer) {
	if !a.address.IsValid() {
		return
	}
	if a.kind == dhcpv6.MessageTypeDecline {
		s.memory.declined.Add(a.address, s.now(), quarantine)
		return
	}
	until, declined := s.memory.declined.Has(a.address, s.now())
	if !declined || (a.kind != dhcpv6.MessageTypeSolicit && a.kind != dhcpv6.MessageTypeRequest) {
		return
	}
	a.Packet, a.reply = nil, 0
	a.Event.Stage = pxe.StageConflict
	a.Event.Detail = fmt.Sprintf("%s was declined, because another machine uses it; it is not given before %s",
		a.address, until.UTC().Format(time.TimeOnly+" UTC"))
}

// tell passes an event on, and logs what people should look at.
func (s *Server) tell(a Answer) {
	if a.Event.Stage == "" {
		return
	}
	a.Event.At = s.now()
	if s.Observer != nil {
		s.Observer.Observe(a.Event)
	}
	switch a.Event.Stage {
	case pxe.StageConflict, pxe.StageMisplaced, pxe.StageFailed:
	default:
		return
	}
	if s.memory.told.Add(finding{stage: a.Event.Stage, host: a.Event.Host}, a.Event.At, quiet) {
		s.log().Warn("DHCPv6: "+string(a.Event.Stage), "host", a.Event.Host, "mac", a.Event.MAC.String(),
			"detail", a.Event.Detail, "port", a.Event.Port.String())
	}
}

func (s *Server) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}
