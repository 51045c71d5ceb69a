// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"cmp"
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
	// Observer, Metrics and Log may be nil. Packets of unknown clients are logged at debug
	// level only, and a problem of a known client once in ten minutes.
	Observer pxe.Observer
	Metrics  *Metrics
	Log      *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	memory dhcpserver.Memory
}

// Conn is a socket that knows the interface of each packet: a *Socket, or a fake.
type Conn interface {
	Receive(buf []byte) (Query, error)
	// Send sends a reply to a packet that arrived on link.
	Send(a Answer, link Link) error
	Close() error
}

const (
	maxPacket = 4096 // longest request that is read, in bytes
	// readers is small, because an answer never blocks.
	readers = 2
)

// Serve answers until ctx ends or the socket fails, and closes the socket. It returns nil when
// ctx ends.
func (s *Server) Serve(ctx context.Context, conn Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	var g errgroup.Group
	for range readers {
		g.Go(func() error {
			buf := make([]byte, maxPacket)
			return dhcpserver.Read(ctx, s.log(), "DHCPv6 request", func() error {
				q, err := conn.Receive(buf)
				if err == nil {
					s.handle(conn, q)
				}
				return err
			})
		})
	}
	return g.Wait()
}

func (s *Server) handle(conn Conn, q Query) {
	defer dhcpserver.Recover(s.log(), "DHCPv6 request", q.From)
	answer, err := Reply(s.Identity, s.Directory, q)
	if err != nil {
		s.Metrics.count(0, outcomeMalformed)
		s.log().Debug("Ignored a malformed DHCPv6 request", "from", q.From, "error", err)
		return
	}
	s.applyMemory(&answer)
	if answer.Packet != nil {
		if err = conn.Send(answer, q.Link); err != nil {
			answer.Event.Stage = pxe.StageFailed
			answer.Event.Detail = fmt.Sprintf("send DHCPv6 reply to %s: %v", answer.To, err)
		}
	}
	s.Metrics.count(answer.kind, outcomeOf(answer, err))
	s.report(answer)
}

// applyMemory applies the memory of earlier packets: a declined address is withheld for a while. A
// host that already uses the address renews it, and renewals are always answered.
func (s *Server) applyMemory(a *Answer) {
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

func (s *Server) report(a Answer) {
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

func (s *Server) log() *slog.Logger { return cmp.Or(s.Log, discard) }

var discard = slog.New(slog.DiscardHandler)
