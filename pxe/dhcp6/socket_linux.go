// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/ipv6"

	"github.com/ingot-metal/ingot/pxe/links"
)

type SocketConfig struct {
	// Interfaces are the names of the served interfaces; empty means all. With one name the
	// socket is bound to that interface.
	Interfaces []string
	// Port is the server port; 0 means 547.
	Port uint16
}

// groups returns the groups that clients and relays send to (RFC 8415 section 7.1).
func groups() []net.IP { return []net.IP{net.ParseIP("ff02::1:2"), net.ParseIP("ff05::1:3")} }

type Socket struct {
	*net.UDPConn
	packets *ipv6.PacketConn
	links   *links.Links
	done    chan struct{}
	closing sync.Once
}

// Listen opens a Socket. It needs CAP_NET_BIND_SERVICE, and for a single named interface
// CAP_NET_RAW.
func Listen(ctx context.Context, cfg SocketConfig) (*Socket, error) {
	if cfg.Port == 0 {
		cfg.Port = serverPort
	}
	known, err := links.Open(cfg.Interfaces...)
	if err != nil {
		return nil, fmt.Errorf("DHCPv6: %w", err)
	}
	conn, err := links.ListenUDP(ctx, netip.AddrPortFrom(netip.IPv6Unspecified(), cfg.Port), cfg.Interfaces)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCPv6: %w", err), known.Close())
	}
	s := &Socket{UDPConn: conn, packets: ipv6.NewPacketConn(conn), links: known, done: make(chan struct{})}
	if err := s.packets.SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true); err != nil {
		return nil, errors.Join(fmt.Errorf("enable interface information for DHCPv6 requests: %w", err), s.Close())
	}
	s.join()
	go links.Follow(s.done, conn, cfg.Interfaces, s.join)
	return s, nil
}

// join joins the groups on all served interfaces. Errors are ignored: the group may be joined
// already, or the interface may not support multicast.
func (s *Socket) join() {
	for index, link := range s.links.All() {
		if !s.links.Serves(link) {
			continue
		}
		for _, group := range groups() {
			_ = s.packets.JoinGroup(&net.Interface{Index: index}, &net.UDPAddr{IP: group})
		}
	}
}

// Close closes the socket. Pending calls return net.ErrClosed.
func (s *Socket) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.done)
		err = errors.Join(s.UDPConn.Close(), s.links.Close())
	})
	return err
}

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
		if !s.links.Serves(link) {
			continue
		}
		source := sender.AddrPort()
		return Query{
			Packet: buf[:n], Link: link, Unicast: !control.Dst.IsMulticast(),
			From: netip.AddrPortFrom(source.Addr().WithZone(""), source.Port()),
		}, nil
	}
}

func (s *Socket) Send(a Answer, link Link) error {
	var control *ipv6.ControlMessage
	if a.To.Addr().IsLinkLocalUnicast() {
		control = &ipv6.ControlMessage{IfIndex: link.Index}
	}
	_, err := s.packets.WriteTo(a.Packet, control, &net.UDPAddr{IP: a.To.Addr().AsSlice(), Port: int(a.To.Port())})
	return err
}
