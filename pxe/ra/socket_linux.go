// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/ipv6"

	"github.com/ingot-metal/ingot/pxe/links"
)

type SocketConfig struct {
	// Interfaces are the names of the served interfaces; empty means all.
	Interfaces []string
}

const (
	allNodes   = "ff02::1"
	allRouters = "ff02::2"
)

// joinEvery is the interval of joining the group on new interfaces.
const joinEvery = 10 * time.Second

type Socket struct {
	raw     *net.IPConn
	packets *ipv6.PacketConn
	links   *links.Links
	closing sync.Once

	mu     sync.Mutex
	joined time.Time
}

// Listen opens a Socket. It needs CAP_NET_RAW.
func Listen(ctx context.Context, cfg SocketConfig) (*Socket, error) {
	known, err := links.Open(cfg.Interfaces...)
	if err != nil {
		return nil, fmt.Errorf("router advertisements: %w", err)
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open socket for router advertisements: %w", err), known.Close())
	}
	s := &Socket{raw: conn.(*net.IPConn), packets: ipv6.NewPacketConn(conn), links: known}
	var only ipv6.ICMPFilter
	only.SetAll(true)
	only.Accept(ipv6.ICMPTypeRouterSolicitation)
	err = errors.Join(
		s.packets.SetICMPFilter(&only),
		s.packets.SetControlMessage(ipv6.FlagInterface|ipv6.FlagHopLimit, true),
		s.packets.SetMulticastHopLimit(255), // RFC 4861 section 4.2
		s.packets.SetMulticastLoopback(false),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configure socket for router advertisements: %w", err), s.Close())
	}
	s.Links()
	return s, nil
}

func (s *Socket) Receive() (int, error) {
	buf := make([]byte, 1500)
	for {
		n, control, sender, err := s.packets.ReadFrom(buf)
		if err != nil {
			return 0, err
		}
		from, ok := sender.(*net.IPAddr)
		if !ok || control == nil {
			continue
		}
		address, _ := netip.AddrFromSlice(from.IP)
		if isSolicitation(buf[:n], address, control.HopLimit) {
			return control.IfIndex, nil
		}
	}
}

// Links implements Conn. It also joins the routers' group on new interfaces.
func (s *Socket) Links() []links.Link {
	var out []links.Link
	for _, link := range s.links.All() {
		if s.links.Serves(link) {
			out = append(out, link)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.joined) > joinEvery {
		s.joined = time.Now()
		for _, link := range out {
			// Fails if joined already, or if the interface has no multicast.
			_ = s.packets.JoinGroup(&net.Interface{Index: link.Index}, &net.IPAddr{IP: net.ParseIP(allRouters)})
		}
	}
	slices.SortFunc(out, func(a, b links.Link) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// Send implements Conn. The kernel uses the interface's link-local address as source and
// computes the checksum.
func (s *Socket) Send(message []byte, index int) error {
	_, err := s.packets.WriteTo(message, &ipv6.ControlMessage{IfIndex: index, HopLimit: 255}, &net.IPAddr{IP: net.ParseIP(allNodes)})
	return err
}

// Close closes the socket. Pending calls return net.ErrClosed.
func (s *Socket) Close() error {
	var err error
	s.closing.Do(func() { err = errors.Join(s.raw.Close(), s.links.Close()) })
	return err
}
