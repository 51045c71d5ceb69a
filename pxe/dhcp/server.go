// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"cmp"
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

// Server answers DHCP requests. It must not be copied after its first use.
type Server struct {
	Identity  Identity
	Directory pxe.Directory
	Observer  pxe.Observer // may be nil
	// Bindings receives the addresses that hosts of mode Proxy get from other servers. If
	// it is nil, agents on those networks get no token by DHCP.
	Bindings *pxe.AddressBindings
	Metrics  *Metrics // may be nil
	// Log may be nil. Packets of unknown clients are logged at debug level only, and a
	// problem of a known client once in ten minutes.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	memory dhcpserver.Memory
	rogues rogueServers
}

// maxPacket is the longest request that is read, in bytes. Longer ones are truncated and so
// malformed.
const maxPacket = 2048

// port is a socket that knows the interface of each packet.
type port interface {
	receive(buf []byte) (n int, from netip.AddrPort, link Link, err error)
	// send answers a packet that arrived on link.
	send(a Answer, link Link) error
	Close() error
}

// sniffer is a socket that receives the replies of other servers.
type sniffer interface {
	sniff(buf []byte) (n int, link Link, err error)
}

// Serve answers DHCP on a socket that is bound to port 67. It returns nil when ctx ends, or an
// error if the socket fails, and closes the socket. Any socket but a *Socket counts as one
// segment, and clients without an address are answered by broadcast.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, func(q Query) (Answer, error) { return Reply(s.Identity, s.Directory, q) })
}

// ServeBINL answers boot file requests on a socket that is bound to port 4011. It is otherwise
// like Serve.
func (s *Server) ServeBINL(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, func(q Query) (Answer, error) { return ReplyBINL(s.Identity, s.Directory, q) })
}

// decide is Reply or ReplyBINL.
type decide func(Query) (Answer, error)

// serve handles one packet after another. An answer takes microseconds and never blocks, while
// a second reader would wake a thread per packet.
func (s *Server) serve(ctx context.Context, conn net.PacketConn, decide decide) error {
	p, ok := conn.(port)
	if !ok {
		p = segment{conn}
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	defer func() { _ = p.Close() }()
	var g errgroup.Group
	g.Go(func() error {
		buf := make([]byte, maxPacket)
		return dhcpserver.Read(ctx, s.log(), "DHCP request", func() error {
			n, from, link, err := p.receive(buf)
			if err == nil {
				s.handle(p, Query{Packet: buf[:n], From: from, Link: link}, decide)
			}
			return err
		})
	})
	if e, ok := p.(sniffer); ok {
		g.Go(func() error { return s.sniffReplies(ctx, e) })
	}
	return g.Wait()
}

// sniffReplies reads the replies of other servers. A failure does not stop the server.
func (s *Server) sniffReplies(ctx context.Context, e sniffer) error {
	buf := make([]byte, maxPacket)
	err := dhcpserver.Read(ctx, s.log(), "DHCP reply", func() error {
		n, link, err := e.sniff(buf)
		if err == nil {
			s.handleReply(Query{Packet: buf[:n], Link: link})
		}
		return err
	})
	if err != nil {
		s.log().Info("Cannot receive the replies of other DHCP servers; only hosts' requests reveal them", "reason", err)
	}
	return nil
}

// errNoPacketSocket is returned by a socket without a packet socket.
var errNoPacketSocket = fmt.Errorf("no packet socket: %w", net.ErrClosed)

func (s *Server) handle(p port, q Query, decide decide) {
	defer dhcpserver.Recover(s.log(), "DHCP request", q.From)
	q.Bindings = s.Bindings
	answer, err := decide(q)
	if err != nil {
		s.Metrics.count(dhcpv4.MessageTypeNone, outcomeMalformed)
		s.log().Debug("Ignored a malformed DHCP request", "from", q.From, "error", err)
		return
	}
	s.Bindings.Bind(answer.takes, answer.mac)
	s.applyMemory(&answer)
	if answer.Packet != nil {
		if err = p.send(answer, q.Link); err != nil {
			answer.Event.Stage = pxe.StageFailed
			answer.Event.Detail = fmt.Sprintf("send DHCP reply to %s: %v", answer.To, err)
		}
	}
	s.Metrics.count(answer.kind, outcomeOf(answer, err))
	s.report(answer)
}

func (s *Server) handleReply(q Query) {
	defer dhcpserver.Recover(s.log(), "DHCP reply", q.From)
	answer, err := InspectReply(s.Identity, s.Directory, q)
	if err != nil {
		s.log().Debug("Ignored a malformed DHCP reply of another server", "error", err)
		return
	}
	s.report(answer)
}

// applyMemory applies the memory of earlier packets: a declined address is withheld for a while,
// unless its host uses it.
func (s *Server) applyMemory(a *Answer) {
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

func (s *Server) report(a Answer) {
	if a.Event.Stage == "" {
		return
	}
	a.Event.At = s.now()
	if s.Observer != nil {
		s.Observer.Observe(a.Event)
	}
	s.Metrics.countFinding(a.Event.Stage)
	about := a.other
	if a.other.IsValid() {
		known, evicted := s.rogues.see(a.other, a.Event.At)
		if evicted.IsValid() {
			s.Metrics.deleteRogue(evicted)
		}
		if known {
			s.Metrics.setRogue(a.other, float64(a.Event.At.Unix()))
		} else {
			about = netip.IPv4Unspecified() // one warning for all the others
		}
	}
	s.memory.Warn(s.log(), a.Event, about)
}

func (s *Server) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Server) log() *slog.Logger { return cmp.Or(s.Log, discard) }

var discard = slog.New(slog.DiscardHandler)

// segment is a socket without interfaces.
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
