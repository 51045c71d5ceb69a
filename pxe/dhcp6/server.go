// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcpserver"
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

	memory dhcpserver.Memory
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
	return dhcpserver.Read(ctx, s.log(), "DHCPv6 request", func() error {
		q, err := conn.Receive(buf)
		if err == nil {
			s.handle(conn, q)
		}
		return err
	})
}

// handle answers one packet.
func (s *Server) handle(conn Conn, q Query) {
	defer dhcpserver.Survive(s.log(), "DHCPv6 request", q.From)
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
		s.memory.Decline(a.address, s.now())
		return
	}
	why := s.memory.Withheld(a.address, s.now())
	if why == "" || (a.kind != dhcpv6.MessageTypeSolicit && a.kind != dhcpv6.MessageTypeRequest) {
		return
	}
	a.Packet, a.reply = nil, 0
	a.Event.Stage, a.Event.Detail = pxe.StageConflict, why
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
	s.memory.Warn(s.log(), a.Event, netip.Addr{})
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
