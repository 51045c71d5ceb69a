// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// connect binds the socket to its client, and says whether that is done.
func (s *ownSocket) connect() bool {
	local, ok := s.udp.LocalAddr().(*net.UDPAddr)
	raw, err := s.udp.SyscallConn()
	if !ok || err != nil || s.client.Addr().Zone() != "" {
		return false
	}
	var to unix.Sockaddr = &unix.SockaddrInet6{Addr: s.client.Addr().As16(), Port: int(s.client.Port())}
	if local.IP.To4() != nil {
		if !s.client.Addr().Is4() {
			return false
		}
		to = &unix.SockaddrInet4{Addr: s.client.Addr().As4(), Port: int(s.client.Port())}
	}
	var connectErr error
	err = raw.Control(func(fd uintptr) { connectErr = unix.Connect(int(fd), to) })
	return err == nil && connectErr == nil
}

// sendSegments sends a window in one call: the kernel, or the network card, cuts
// it up (UDP_SEGMENT, Linux 4.18). It is false where that is not possible, such
// as over a card without checksums of its own or for packets larger than its
// frames; then it is not tried again.
func (s *ownSocket) sendSegments(frames []byte, size int) bool {
	if s.segment == nil {
		s.segment = segmentMessage()
	}
	if len(s.segment) == 0 {
		return false
	}
	binary.NativeEndian.PutUint16(s.segment[unix.CmsgLen(0):], uint16(size))
	if _, _, err := s.udp.WriteMsgUDPAddrPort(frames, s.segment, s.client); err != nil {
		s.segment = []byte{}
		return false
	}
	return true
}

// segmentMessage is the control message that says where to cut (a cmsghdr of a
// 64-bit kernel); the size is filled in later.
func segmentMessage() []byte {
	b := make([]byte, unix.CmsgSpace(2))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(2)))
	binary.NativeEndian.PutUint32(b[8:], unix.SOL_UDP)
	binary.NativeEndian.PutUint32(b[12:], unix.UDP_SEGMENT)
	return b
}

// RouteMTU is how many bytes a packet to this address may have on its way, as far
// as the kernel knows: the interface's MTU, or less where a router has said so.
// It is for Server.PathMTU, and asks for the network namespace of the process.
func RouteMTU(client netip.Addr) (int, error) {
	// Connecting a UDP socket sends nothing. Port 9 discards.
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(client, 9)))
	if err != nil {
		return 0, fmt.Errorf("path MTU: %w", err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("path MTU: %w", err)
	}
	level, name := unix.IPPROTO_IP, unix.IP_MTU
	if !client.Unmap().Is4() {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	var (
		mtu    int
		getErr error
	)
	err = raw.Control(func(fd uintptr) { mtu, getErr = unix.GetsockoptInt(int(fd), level, name) })
	if err := errors.Join(err, getErr); err != nil {
		return 0, fmt.Errorf("path MTU: %w", err)
	}
	return mtu, nil
}
