// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// link carries the packets of one transfer.
type link interface {
	// send sends packets that lie end to end in frames, each of size bytes but
	// for the last, which may be shorter.
	send(frames []byte, size int) error
	// receive returns the client's next packet, valid until the next call, or
	// os.ErrDeadlineExceeded.
	receive(deadline time.Time) ([]byte, error)
	// close ends a receive that is under way.
	close()
}

// replySize is room for an ACK, or an ERROR with its text.
const replySize = 516

// ownSocket is a socket for one transfer alone (RFC 1350 §4).
type ownSocket struct {
	conn   net.PacketConn
	client netip.AddrPort
	// udp is conn if it is the kernel's: that way costs no allocation, and a
	// window can go out in one call.
	udp *net.UDPConn
	// connected: the kernel lets packets of the client in only, answers others by
	// ICMP, and says so if the client's port is closed. It saves a look at the
	// routes for each packet.
	connected bool
	to        net.Addr
	segment   []byte
	buf       [replySize]byte
}

func newOwnSocket(conn net.PacketConn, client netip.AddrPort) *ownSocket {
	s := &ownSocket{conn: conn, client: client, to: net.UDPAddrFromAddrPort(client)}
	s.udp, _ = conn.(*net.UDPConn)
	s.connected = s.udp != nil && s.connect()
	return s
}

func (s *ownSocket) send(frames []byte, size int) error {
	if s.udp != nil && len(frames) > size && s.sendSegments(frames, size) {
		return nil
	}
	for len(frames) > size {
		if err := s.write(frames[:size]); err != nil {
			return err
		}
		frames = frames[size:]
	}
	return s.write(frames)
}

func (s *ownSocket) write(p []byte) error {
	var err error
	switch {
	case s.connected:
		if _, err = s.udp.Write(p); tooLong(err) {
			_, err = s.udp.Write(p) // that was said of one that was sent before
		}
		if tooLong(err) {
			return nil // as lost as one that a router drops
		}
	case s.udp != nil:
		_, err = s.udp.WriteToUDPAddrPort(p, s.client)
	default:
		_, err = s.conn.WriteTo(p, s.to)
	}
	if err != nil {
		return fmt.Errorf("send to %s: %w", s.client, gone(err))
	}
	return nil
}

// tooLong reports what a router on the way says, by ICMP, of a packet that was sent some
// time ago. The kernel knows the path's MTU from then on, and cuts the packet up when it
// is sent again.
func tooLong(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

// gone is errGone for what the kernel says of a closed port.
func gone(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: its port is closed", errGone)
	}
	return err
}

func (s *ownSocket) receive(deadline time.Time) ([]byte, error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	if s.connected {
		n, err := s.udp.Read(s.buf[:])
		for tooLong(err) {
			n, err = s.udp.Read(s.buf[:])
		}
		return s.buf[:n], gone(err)
	}
	for {
		n, from, err := readFrom(s.conn, s.udp, s.buf[:])
		if err != nil {
			return nil, err
		}
		if from == s.client {
			return s.buf[:n], nil
		}
		// RFC 1350 §4: tell the stranger, and go on.
		_, _ = s.conn.WriteTo(encodeError(codeUnknownTID, "unknown transfer"), net.UDPAddrFromAddrPort(from))
	}
}

func (s *ownSocket) close() { _ = s.conn.Close() }

// readFrom reads from udp if it is not nil, else from conn.
func readFrom(conn net.PacketConn, udp *net.UDPConn, buf []byte) (int, netip.AddrPort, error) {
	if udp != nil {
		n, from, err := udp.ReadFromUDPAddrPort(buf)
		return n, unmapped(from), err
	}
	n, from, err := conn.ReadFrom(buf)
	if err != nil {
		return n, netip.AddrPort{}, err
	}
	if a, ok := from.(*net.UDPAddr); ok {
		return n, unmapped(a.AddrPort()), nil
	}
	a, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return n, netip.AddrPort{}, fmt.Errorf("address of a client: %w", err)
	}
	return n, unmapped(a), nil
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// sharedSocket is the server's own socket, for single-port mode: the server hands
// on what comes from the client.
type sharedSocket struct {
	conn  net.PacketConn
	to    net.Addr
	inbox chan []byte
	ended chan struct{}
	timer *time.Timer
}

// inboxSize is how many packets wait for a transfer. More than a few are repeats.
const inboxSize = 8

func newSharedSocket(conn net.PacketConn, client netip.AddrPort) *sharedSocket {
	return &sharedSocket{conn: conn, to: net.UDPAddrFromAddrPort(client), inbox: make(chan []byte, inboxSize), ended: make(chan struct{}),
		timer: time.NewTimer(time.Hour)}
}

func (s *sharedSocket) send(frames []byte, size int) error {
	for {
		p := frames[:min(size, len(frames))]
		if _, err := s.conn.WriteTo(p, s.to); err != nil {
			return fmt.Errorf("send to %s: %w", s.to, err)
		}
		if frames = frames[len(p):]; len(frames) == 0 {
			return nil
		}
	}
}

func (s *sharedSocket) receive(deadline time.Time) ([]byte, error) {
	s.timer.Reset(time.Until(deadline))
	select {
	case p := <-s.inbox:
		return p, nil
	case <-s.timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

func (s *sharedSocket) close() { close(s.ended) }

// deliver hands on a packet; one too many is lost, as on any wire.
func (s *sharedSocket) deliver(p []byte) {
	select {
	case s.inbox <- append([]byte(nil), p...):
	default:
	}
}
