// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/net/ipv6"

	"github.com/ingot-metal/ingot/pxe/links"
)

// SocketConfig says what a Socket listens on.
type SocketConfig struct {
	// Interfaces are the names of those that are served; none: all. One is bound to.
	Interfaces []string
	// Port is the server's; 0 means 547.
	Port uint16
}

// groups are where clients and relays send to (RFC 8415 §7.1).
func groups() []net.IP { return []net.IP{net.ParseIP("ff02::1:2"), net.ParseIP("ff05::1:3")} }

// Socket is a DHCPv6 server's socket on the host's network, or that of the network
// namespace it was opened in.
type Socket struct {
	*net.UDPConn
	packets *ipv6.PacketConn
	only    []string
	links   *links.Links
	done    chan struct{}
	closing sync.Once
}

// Listen opens a Socket. It needs the right to bind ports below 1024, and for one
// named interface CAP_NET_RAW.
func Listen(ctx context.Context, cfg SocketConfig) (*Socket, error) {
	if cfg.Port == 0 {
		cfg.Port = serverPort
	}
	known, err := links.Open()
	if err != nil {
		return nil, fmt.Errorf("DHCPv6: %w", err)
	}
	if name := known.Missing(cfg.Interfaces); name != "" {
		return nil, errors.Join(fmt.Errorf("DHCPv6: there is no interface %s", name), known.Close())
	}
	conn, err := links.ListenUDP(ctx, netip.AddrPortFrom(netip.IPv6Unspecified(), cfg.Port), cfg.Interfaces)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCPv6: %w", err), known.Close())
	}
	s := &Socket{UDPConn: conn, packets: ipv6.NewPacketConn(conn), only: cfg.Interfaces, links: known, done: make(chan struct{})}
	if err := s.packets.SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true); err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the interface of DHCPv6 requests: %w", err), s.Close())
	}
	s.join()
	go links.Follow(s.done, conn, s.only, s.join)
	return s, nil
}

// join joins the groups on all interfaces that are served. What is joined already, or
// cannot be (no multicast), is left.
func (s *Socket) join() {
	for index, link := range s.links.All() {
		if !s.serves(link) {
			continue
		}
		for _, group := range groups() {
			_ = s.packets.JoinGroup(&net.Interface{Index: index}, &net.UDPAddr{IP: group})
		}
	}
}

func (s *Socket) serves(link Link) bool {
	return len(s.only) == 0 || slices.Contains(s.only, link.Name)
}

// Close closes the socket; what waits for it ends with net.ErrClosed.
func (s *Socket) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.done)
		err = errors.Join(s.UDPConn.Close(), s.links.Close())
	})
	return err
}

// Receive implements Conn.
func (s *Socket) Receive(buf []byte) (Query, error) {
	for {
		n, control, from, err := s.packets.ReadFrom(buf)
		if err != nil {
			return Query{}, err
		}
		sender, ok := from.(*net.UDPAddr)
		if !ok || control == nil {
			continue
		}
		link := s.links.Get(control.IfIndex)
		if !s.serves(link) {
			continue
		}
		source := sender.AddrPort()
		return Query{
			Packet: buf[:n], Link: link, Unicast: !control.Dst.IsMulticast(),
			From: netip.AddrPortFrom(source.Addr().WithZone(""), source.Port()),
		}, nil
	}
}

// Send implements Conn.
func (s *Socket) Send(a Answer, link Link) error {
	var control *ipv6.ControlMessage
	if a.To.Addr().IsLinkLocalUnicast() {
		control = &ipv6.ControlMessage{IfIndex: link.Index}
	}
	_, err := s.packets.WriteTo(a.Packet, control, &net.UDPAddr{IP: a.To.Addr().AsSlice(), Port: int(a.To.Port())})
	return err
}
