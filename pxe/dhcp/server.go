// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcpserver"
)

// Server answers DHCP requests on sockets that it is given. It must not be
// copied after its first use.
type Server struct {
	Identity  Identity
	Directory pxe.Directory
	// Observer may be nil.
	Observer pxe.Observer
	// Bindings take the addresses that hosts of mode Proxy get from other servers. Nil:
	// nothing is remembered, and agents that ask by DHCP get no token there.
	Bindings *pxe.AddressBindings
	// Metrics may be nil.
	Metrics *Metrics
	// Log may be nil. Nothing that an unknown client sends is logged above
	// debug level, and what is wrong with a known one once in ten minutes.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	memory dhcpserver.Memory
	others others
}

// maxPacket is the longest request worth reading; the rest of a longer one is cut off,
// which makes it malformed.
const maxPacket = 2048

// port is a socket that knows its interfaces.
type port interface {
	// receive reads one packet.
	receive(buf []byte) (n int, from netip.AddrPort, link Link, err error)
	// send answers a packet that came by link.
	send(a Answer, link Link) error
	Close() error
}

// eavesdropper is a socket that hears what other servers reply.
type eavesdropper interface {
	overhear(buf []byte) (n int, link Link, err error)
}

// Serve answers DHCP on a socket that is bound to port 67, until ctx ends or the
// socket breaks, and closes the socket. A *Socket knows the interfaces of the
// machine; any other is taken for one segment, where everybody without an address
// is answered by broadcast. A nil error means that ctx ended.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, portOf(conn), func(q Query) (Answer, error) { return Reply(s.Identity, s.Directory, q) })
}

// ServeBINL answers questions for boot files on a socket that is bound to port
// 4011, as Serve does on port 67.
func (s *Server) ServeBINL(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, portOf(conn), func(q Query) (Answer, error) { return ReplyBINL(s.Identity, s.Directory, q) })
}

func portOf(conn net.PacketConn) port {
	if p, ok := conn.(port); ok {
		return p
	}
	return segment{conn}
}

// decide is a reply function: Reply, ReplyBINL or Overheard.
type decide func(Query) (Answer, error)

// serve reads and answers, one packet after another: an answer takes microseconds and
// waits for nobody, while a second reader would have a thread woken for every packet.
func (s *Server) serve(ctx context.Context, p port, decide decide) error {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	defer func() { _ = p.Close() }()
	var g errgroup.Group
	g.Go(func() error { return s.read(ctx, p, decide) })
	if e, ok := p.(eavesdropper); ok {
		g.Go(func() error { return s.listen(ctx, e) })
	}
	return g.Wait()
}

func (s *Server) read(ctx context.Context, p port, decide decide) error {
	buf := make([]byte, maxPacket)
	return dhcpserver.Read(ctx, s.log(), "DHCP request", func() error {
		n, from, link, err := p.receive(buf)
		if err == nil {
			s.handle(p, Query{Packet: buf[:n], From: from, Link: link}, decide)
		}
		return err
	})
}

// listen hears what other servers reply. That it cannot is no reason to stop.
func (s *Server) listen(ctx context.Context, e eavesdropper) error {
	buf := make([]byte, maxPacket)
	err := dhcpserver.Read(ctx, s.log(), "DHCP reply", func() error {
		n, link, err := e.overhear(buf)
		if err == nil {
			s.hear(Query{Packet: buf[:n], Link: link})
		}
		return err
	})
	if err != nil {
		s.log().Info("Replies of other DHCP servers are not heard; only what hosts tell of them is", "reason", err)
	}
	return nil
}

// errDeaf reports that the replies of others cannot be heard.
var errDeaf = fmt.Errorf("no packet socket: %w", net.ErrClosed)

// handle answers one packet.
func (s *Server) handle(p port, q Query, decide decide) {
	defer dhcpserver.Survive(s.log(), "DHCP request", q.From)
	q.Bindings = s.Bindings
	answer, err := decide(q)
	if err != nil {
		s.Metrics.count(dhcpv4.MessageTypeNone, outcomeMalformed)
		s.log().Debug("DHCP request dropped", "from", q.From, "error", err)
		return
	}
	s.Bindings.Bind(answer.takes, answer.mac)
	s.recall(&answer)
	if answer.Packet != nil {
		if err = p.send(answer, q.Link); err != nil {
			answer.Event.Stage = pxe.StageFailed
			answer.Event.Detail = fmt.Sprintf("send DHCP reply to %s: %v", answer.To, err)
		}
	}
	s.Metrics.count(answer.kind, outcomeOf(answer, err))
	s.tell(answer)
}

// hear looks at a reply of another server.
func (s *Server) hear(q Query) {
	defer dhcpserver.Survive(s.log(), "DHCP reply", q.From)
	answer, err := Overheard(s.Identity, s.Directory, q)
	if err != nil {
		s.log().Debug("Overheard DHCP reply dropped", "error", err)
		return
	}
	s.tell(answer)
}

// recall brings in what was heard before: an address that was declined is not
// given again for a while, unless its host uses it.
func (s *Server) recall(a *Answer) {
	if !a.address.IsValid() {
		return
	}
	switch {
	case a.kind == dhcpv4.MessageTypeDecline:
		s.memory.Decline(a.address, s.now())
	case a.reply == dhcpv4.MessageTypeAck && a.Event.Client == a.address:
		s.memory.Use(a.address)
	default:
		if why := s.memory.Withheld(a.address, s.now()); why != "" {
			a.Packet, a.reply = nil, dhcpv4.MessageTypeNone
			a.Event.Stage, a.Event.Detail = pxe.StageConflict, why
		}
	}
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
	s.Metrics.find(a.Event.Stage)
	about := a.other
	if a.other.IsValid() {
		about = s.see(a.other, a.Event.At)
	}
	s.memory.Warn(s.log(), a.Event, about)
}

// see notes another server, and returns by which name people are told of it.
func (s *Server) see(other netip.Addr, at time.Time) netip.Addr {
	known, forgotten := s.others.see(other, at)
	if forgotten.IsValid() {
		s.Metrics.forget(forgotten)
	}
	if !known {
		return netip.IPv4Unspecified()
	}
	s.Metrics.saw(other, float64(at.Unix()))
	return other
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

// segment is a socket that knows one segment only.
type segment struct{ net.PacketConn }

func (c segment) receive(buf []byte) (int, netip.AddrPort, Link, error) {
	n, from, err := c.ReadFrom(buf)
	var source netip.AddrPort
	if udp, ok := from.(*net.UDPAddr); ok {
		source = udp.AddrPort()
		source = netip.AddrPortFrom(source.Addr().Unmap(), source.Port())
	}
	return n, source, Link{}, err
}

func (c segment) send(a Answer, _ Link) error {
	to := a.To
	if a.Hardware != nil {
		to = netip.AddrPortFrom(limitedBroadcast, clientPort)
	}
	_, err := c.WriteTo(a.Packet, net.UDPAddrFromAddrPort(to))
	return err
}
