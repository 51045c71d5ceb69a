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
	"slices"
	"sync"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/pxe/links"
)

// SocketConfig says what a Socket listens on.
type SocketConfig struct {
	// Interfaces are the names of those that are served; none: all. One is bound
	// to, so that another DHCP server of this machine can be bound to another; of
	// several, what comes in by others is dropped.
	Interfaces []string
	// Source is the address that answers come from, one of this machine's:
	// Identity.Address.
	Source netip.Addr
	// Port is the server's; 0 means 67.
	Port uint16
}

// receiveBuffer holds what arrives while the reader is busy, in bytes, as far as
// the kernel allows (net.core.rmem_max): a rack that is switched on asks at once.
const receiveBuffer = 8 << 20

// Socket is a DHCP server's socket on the host's network, or that of the network
// namespace it was opened in. It knows by which interface a packet came, answers
// by the same, reaches clients that have no address yet by Ethernet frame, and
// hears what other servers reply. It is a net.PacketConn besides.
type Socket struct {
	*net.UDPConn
	source netip.Addr
	// by is the control message that has answers come from source.
	by    []byte
	only  []string
	links *links.Links
	// raw sends frames and hears replies; nil without the right to (CAP_NET_RAW).
	raw     *packetSocket
	done    chan struct{}
	closing sync.Once
}

// Listen opens a Socket. It needs the right to bind ports below 1024, and for one
// named interface CAP_NET_RAW.
func Listen(ctx context.Context, cfg SocketConfig) (*Socket, error) {
	port := cfg.Port
	if port == 0 {
		port = serverPort
	}
	known, err := links.Open()
	if err != nil {
		return nil, fmt.Errorf("DHCP: %w", err)
	}
	s := &Socket{source: cfg.Source, by: leaving(cfg.Source, 0), only: cfg.Interfaces, links: known, done: make(chan struct{})}
	if err := s.open(ctx, port); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	go links.Follow(s.done, s.UDPConn, s.only, nil)
	return s, nil
}

// open opens the rest of a socket that has its route socket.
func (s *Socket) open(ctx context.Context, port uint16) error {
	if name := s.links.Missing(s.only); name != "" {
		return fmt.Errorf("DHCP: there is no interface %s", name)
	}
	conn, err := links.ListenUDP(ctx, netip.AddrPortFrom(netip.IPv4Unspecified(), port), s.only)
	if err != nil {
		return fmt.Errorf("DHCP: %w", err)
	}
	s.UDPConn = conn
	_ = s.SetReadBuffer(receiveBuffer) // as much as is allowed
	if err := ipv4.NewPacketConn(s.UDPConn).SetControlMessage(ipv4.FlagInterface, true); err != nil {
		return fmt.Errorf("ask for the interface of DHCP requests: %w", err)
	}
	s.raw, err = openPacketSocket()
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("open a packet socket for DHCP: %w", err)
	}
	return nil
}

// Close closes the socket; what waits for it ends with net.ErrClosed.
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

// receive implements port.
func (s *Socket) receive(buf []byte) (int, netip.AddrPort, Link, error) {
	var oob [64]byte // one message with an address and an index
	for {
		n, m, _, from, err := s.ReadMsgUDPAddrPort(buf, oob[:])
		if err != nil {
			return 0, netip.AddrPort{}, Link{}, err
		}
		index, err := cameBy(oob[:m])
		if err != nil {
			return 0, netip.AddrPort{}, Link{}, fmt.Errorf("interface of a DHCP request: %w", err)
		}
		link := s.links.Get(index)
		if s.serves(link) {
			return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), link, nil
		}
	}
}

func (s *Socket) serves(link Link) bool {
	return len(s.only) == 0 || slices.Contains(s.only, link.Name)
}

// send implements port.
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
		by = leaving(s.source, link.Index) // else it leaves by the default route
	}
	_, _, err := s.WriteMsgUDPAddrPort(a.Packet, by, to)
	return err
}

// leaving is the control message of what goes out from an address, by an interface if one
// is named (IP_PKTINFO).
func leaving(source netip.Addr, index int) []byte {
	return (&ipv4.ControlMessage{Src: source.AsSlice(), IfIndex: index}).Marshal()
}

// cameBy is the interface in the control message of what came in; 0: it says none.
func cameBy(oob []byte) (index int, err error) {
	for len(oob) > 0 {
		head, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0, err
		}
		if head.Level == unix.IPPROTO_IP && head.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo {
			return int(int32(binary.NativeEndian.Uint32(data))), nil // struct in_pktinfo begins with it
		}
		oob = rest
	}
	return 0, nil
}

// overhear implements eavesdropper.
func (s *Socket) overhear(buf []byte) (int, Link, error) {
	if s.raw == nil {
		return 0, Link{}, errDeaf
	}
	for {
		n, index, err := s.raw.receive(buf)
		if err != nil {
			return 0, Link{}, err
		}
		if link := s.links.Get(index); s.serves(link) {
			return n, link, nil
		}
	}
}
