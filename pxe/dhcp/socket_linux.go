// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/pxe/links"
)

type SocketConfig struct {
	// Interfaces are the names of the served interfaces; empty means all. With one name the
	// socket is bound to that interface, so that another DHCP server can use the others.
	// With several names, packets from other interfaces are dropped.
	Interfaces []string
	// Source is the local address that answers come from (Identity.Address).
	Source netip.Addr
	// Port is the server port; 0 means 67.
	Port uint16
}

// receiveBuffer is the requested size of the receive buffer, in bytes. The kernel's limit is
// net.core.rmem_max. A rack that is powered on sends all requests at once.
const receiveBuffer = 8 << 20

// Socket is a DHCP server's socket in a network namespace. It reports the interface of each
// packet and answers on the same interface. It reaches clients that have no address yet by
// Ethernet frames, and receives the replies of other servers. It is also a net.PacketConn.
type Socket struct {
	*net.UDPConn
	source netip.Addr
	// by is the control message that sets the source address.
	by    []byte
	links *links.Links
	// raw sends frames and receives replies; nil without CAP_NET_RAW.
	raw     *packetSocket
	done    chan struct{}
	closing sync.Once
}

// Listen opens a Socket. It needs CAP_NET_BIND_SERVICE, and for a single named interface
// CAP_NET_RAW.
func Listen(ctx context.Context, cfg SocketConfig) (*Socket, error) {
	port := cfg.Port
	if port == 0 {
		port = serverPort
	}
	known, err := links.Open(cfg.Interfaces...)
	if err != nil {
		return nil, fmt.Errorf("DHCP: %w", err)
	}
	s := &Socket{source: cfg.Source, by: sourceControl(cfg.Source, 0), links: known, done: make(chan struct{})}
	if err := s.open(ctx, port, cfg.Interfaces); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	go links.Follow(s.done, s.UDPConn, cfg.Interfaces, nil)
	return s, nil
}

// open opens the sockets except for links.
func (s *Socket) open(ctx context.Context, port uint16, interfaces []string) error {
	conn, err := links.ListenUDP(ctx, netip.AddrPortFrom(netip.IPv4Unspecified(), port), interfaces)
	if err != nil {
		return fmt.Errorf("DHCP: %w", err)
	}
	s.UDPConn = conn
	_ = s.SetReadBuffer(receiveBuffer) // best effort
	if err := ipv4.NewPacketConn(s.UDPConn).SetControlMessage(ipv4.FlagInterface, true); err != nil {
		return fmt.Errorf("enable interface information for DHCP requests: %w", err)
	}
	s.raw, err = openPacketSocket()
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("open packet socket for DHCP: %w", err)
	}
	return nil
}

// Close closes the socket. Pending calls return net.ErrClosed.
func (s *Socket) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.done)
		if s.UDPConn != nil {
			err = s.UDPConn.Close()
		}
		if s.raw != nil {
			err = errors.Join(err, s.raw.Close())
		}
		err = errors.Join(err, s.links.Close())
	})
	return err
}

func (s *Socket) receive(buf []byte) (int, netip.AddrPort, Link, error) {
	var oob [64]byte // fits one message with an address and an index
	for {
		n, m, _, from, err := s.ReadMsgUDPAddrPort(buf, oob[:])
		if err != nil {
			return 0, netip.AddrPort{}, Link{}, err
		}
		index, err := arrivalInterface(oob[:m])
		if err != nil {
			return 0, netip.AddrPort{}, Link{}, fmt.Errorf("read interface of a DHCP request: %w", err)
		}
		link := s.links.Get(index)
		if s.links.Serves(link) {
			return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), link, nil
		}
	}
}

func (s *Socket) send(a Answer, link Link) error {
	if a.Hardware != nil && s.raw != nil && link.Index != 0 {
		return s.raw.send(datagram(a.Packet, netip.AddrPortFrom(s.source, serverPort), a.To), a.Hardware, link.Index)
	}
	to := a.To
	if a.Hardware != nil {
		to = netip.AddrPortFrom(limitedBroadcast, clientPort)
	}
	by := s.by
	if to.Addr() == limitedBroadcast {
		by = sourceControl(s.source, link.Index) // without it the default route decides
	}
	_, _, err := s.WriteMsgUDPAddrPort(a.Packet, by, to)
	return err
}

// sourceControl returns the control message (IP_PKTINFO) that sets the source address and, unless
// index is 0, the interface of an outgoing packet.
func sourceControl(source netip.Addr, index int) []byte {
	return (&ipv4.ControlMessage{Src: source.AsSlice(), IfIndex: index}).Marshal()
}

// arrivalInterface returns the interface of a received packet from its control messages, or 0.
func arrivalInterface(oob []byte) (index int, err error) {
	for len(oob) > 0 {
		head, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0, err
		}
		if head.Level == unix.IPPROTO_IP && head.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo {
			return int(int32(binary.NativeEndian.Uint32(data))), nil // first field of struct in_pktinfo
		}
		oob = rest
	}
	return 0, nil
}

func (s *Socket) sniff(buf []byte) (int, Link, error) {
	if s.raw == nil {
		return 0, Link{}, errNoPacketSocket
	}
	for {
		n, index, err := s.raw.receive(buf)
		if err != nil {
			return 0, Link{}, err
		}
		if link := s.links.Get(index); s.links.Serves(link) {
			return n, link, nil
		}
	}
}
