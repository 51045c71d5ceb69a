// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type link interface {
	// send sends the packets in frames. Each has size bytes, and the last may be shorter.
	send(frames []byte, size int) error
	// receive returns the client's next packet, which is valid until the next call, or
	// os.ErrDeadlineExceeded.
	receive(deadline time.Time) ([]byte, error)
}

// replySize fits an ACK, or an ERROR with its text.
const replySize = 516

// ownSocket is a socket for one transfer, connected to its client (RFC 1350 section 4). The
// kernel answers other senders by ICMP and reports a closed port of the client.
type ownSocket struct {
	net.Conn
	// noSegments is set after the kernel refused to segment a window.
	noSegments bool
	buf        [replySize]byte
}

func (s *ownSocket) send(frames []byte, size int) error {
	if len(frames) > size && s.sendSegments(frames, size) {
		return nil
	}
	for packet := range slices.Chunk(frames, size) {
		if _, err := try(s.Write, packet); err != nil {
			return fmt.Errorf("send to %s: %w", s.RemoteAddr(), err)
		}
	}
	return nil
}

// sendSegments sends a window in one call, and the kernel or the NIC splits it (UDP_SEGMENT, Linux
// 4.18). It returns false if that is not possible, such as on a NIC without checksum offload.
func (s *ownSocket) sendSegments(frames []byte, size int) bool {
	udp, ok := s.Conn.(*net.UDPConn)
	if !ok || s.noSegments {
		return false
	}
	control := binary.NativeEndian.AppendUint64(nil, uint64(unix.CmsgLen(2))) // a cmsghdr of a 64-bit kernel
	control = binary.NativeEndian.AppendUint32(control, unix.SOL_UDP)
	control = binary.NativeEndian.AppendUint32(control, unix.UDP_SEGMENT)
	control = append(binary.NativeEndian.AppendUint16(control, uint16(size)), make([]byte, unix.CmsgSpace(2)-unix.CmsgLen(2))...)
	_, _, err := udp.WriteMsgUDP(frames, control, nil)
	s.noSegments = err != nil
	return err == nil
}

func (s *ownSocket) receive(deadline time.Time) ([]byte, error) {
	if err := s.SetReadDeadline(deadline); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	n, err := try(s.Read, s.buf[:])
	return s.buf[:n], err
}

// try repeats a read or write if a router reports by ICMP that an earlier packet was too long:
// after that the kernel knows the path's MTU and fragments packets. A packet that fails twice
// is lost. A closed port of the client is errGone.
func try(transfer func([]byte) (int, error), packet []byte) (int, error) {
	n, err := transfer(packet)
	if errors.Is(err, syscall.EMSGSIZE) {
		n, err = transfer(packet)
	}
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return 0, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return 0, fmt.Errorf("%w: its port is closed", errGone)
	}
	return n, err
}

// pathMTU returns the MTU in bytes that the kernel knows for the path of a socket, or DefaultMTU.
func pathMTU(conn net.Conn, client netip.Addr) int {
	level, name := unix.IPPROTO_IP, unix.IP_MTU
	if !client.Is4() {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu := DefaultMTU
	if udp, ok := conn.(*net.UDPConn); ok {
		if raw, err := udp.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if n, err := unix.GetsockoptInt(int(fd), level, name); err == nil {
					mtu = n
				}
			})
		}
	}
	return mtu
}

// maxBlock returns the largest block that fits one packet to the client.
func maxBlock(mtu int, client netip.Addr) int {
	headers := 20 + 8 + headerSize // IPv4, UDP and TFTP
	if !client.Is4() {
		headers = 40 + 8 + headerSize
	}
	return min(max(mtu-headers, defaultBlockSize), maxBlockSize)
}

// sharedSocket is the server's own socket in single-port mode.
type sharedSocket struct {
	conn    net.PacketConn
	session *session
}

func (s *sharedSocket) send(frames []byte, size int) error {
	for packet := range slices.Chunk(frames, size) {
		if _, err := s.conn.WriteTo(packet, net.UDPAddrFromAddrPort(s.session.from)); err != nil {
			return fmt.Errorf("send to %s: %w", s.session.from, err)
		}
	}
	return nil
}

func (s *sharedSocket) receive(deadline time.Time) ([]byte, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case p := <-s.session.inbox:
		return p, nil
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-s.session.ctx.Done():
		return nil, net.ErrClosed
	}
}
