// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// The packets of TFTP (RFC 1350 §5, RFC 2347).
const (
	opRRQ   = 1
	opDATA  = 3
	opACK   = 4
	opERROR = 5
	opOACK  = 6

	tftpPort    = 69
	tftpBlock   = 512
	tftpTimeout = 500 * time.Millisecond
	tftpRetries = 10
)

// tftp reads a file like a plain ROM, in blocks of 512 bytes, and returns its length.
func (s *Server) tftp(ctx context.Context, server, file string) (int64, error) {
	ip := net.ParseIP(server)
	if ip == nil {
		return 0, fmt.Errorf("TFTP: server %q is not an IP address", server)
	}
	listen := s.cfg.NIC.ListenUDP
	if s.cfg.IPv6 {
		listen = func(port uint16) (net.PacketConn, error) { return s.cfg.NIC.ListenUDPIPv6(port) }
	}
	conn, err := listen(0)
	if err != nil {
		return 0, fmt.Errorf("TFTP: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	packet := append([]byte{0, opRRQ}, file...)
	packet = append(packet, "\x00octet\x00"...)
	t := &transfer{conn: conn, to: &net.UDPAddr{IP: ip, Port: tftpPort}, packet: packet}
	for {
		n, err := t.next()
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			return 0, fmt.Errorf("TFTP: read %s from %s: %w", file, server, err)
		}
		if n < tftpBlock {
			if t.length == 0 {
				return 0, fmt.Errorf("TFTP: %s is empty", file)
			}
			return t.length, nil
		}
	}
}

// transfer is one read.
type transfer struct {
	conn net.PacketConn
	// to is port 69, then the port that the server chose.
	to *net.UDPAddr
	// packet is the last sent one, for a repetition.
	packet []byte
	chosen bool
	block  uint16
	length int64
}

// next gets the next block and acknowledges it.
func (t *transfer) next() (int, error) {
	buf := make([]byte, 4+tftpBlock)
	for range tftpRetries {
		if _, err := t.conn.WriteTo(t.packet, t.to); err != nil {
			return 0, err
		}
		if err := t.conn.SetReadDeadline(time.Now().Add(tftpTimeout)); err != nil {
			return 0, err
		}
		for {
			n, from, err := t.conn.ReadFrom(buf)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				break // send again
			}
			if err != nil {
				return 0, err
			}
			size, done, err := t.receive(buf[:n], from)
			if done || err != nil {
				return size, err
			}
		}
	}
	return 0, errors.New("no answer")
}

// receive handles a packet; done means that it was the expected block.
func (t *transfer) receive(packet []byte, from net.Addr) (size int, done bool, err error) {
	peer, ok := from.(*net.UDPAddr)
	if !ok || !peer.IP.Equal(t.to.IP) || len(packet) < 4 || (t.chosen && peer.Port != t.to.Port) {
		return 0, false, nil // from another sender
	}
	switch op, number := binary.BigEndian.Uint16(packet), binary.BigEndian.Uint16(packet[2:]); op {
	case opERROR:
		return 0, false, fmt.Errorf("server answered error %d: %q", number, string(packet[4:]))
	case opDATA:
		if number != t.block+1 {
			return 0, false, nil // a block that was repeated
		}
		t.to, t.chosen, t.block = peer, true, number
		t.length += int64(len(packet) - 4)
		t.packet = binary.BigEndian.AppendUint16([]byte{0, opACK}, number)
		if len(packet)-4 < tftpBlock {
			_, err = t.conn.WriteTo(t.packet, t.to)
		}
		return len(packet) - 4, true, err
	case opOACK:
		return 0, false, errors.New("server acknowledged options that were not sent")
	}
	return 0, false, nil
}
