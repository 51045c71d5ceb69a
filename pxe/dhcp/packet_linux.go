// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// packetSocket is an AF_PACKET socket for IPv4. A kernel filter lets only DHCP replies in.
type packetSocket struct {
	file *os.File
	raw  syscall.RawConn
}

func openPacketSocket() (*packetSocket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "packet")
	raw, err := file.SyscallConn()
	if err == nil {
		err = errors.Join(filterReplies(fd),
			// Bind to the protocol last, so that no packet bypasses the filter.
			os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_IP)})))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &packetSocket{file: file, raw: raw}, nil
}

// filterReplies accepts UDP packets from port 67 to port 68, except fragments.
func filterReplies(fd int) error {
	const accept, drop = 7, 8
	to := func(label, at int) uint8 { return uint8(label - at - 1) }
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoUDP, SkipTrue: to(drop, 1)},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: to(drop, 3)},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 0, Size: 4}, // source and destination port
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: serverPort<<16 | clientPort, SkipTrue: to(drop, 6)},
		accept: bpf.RetConstant{Val: 1 << 16},
		drop:   bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return fmt.Errorf("assemble the filter for DHCP replies: %w", err)
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
}

// send sends an IP packet to a hardware address.
func (p *packetSocket) send(packet []byte, to net.HardwareAddr, index int) error {
	address := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_IP), Ifindex: index, Halen: uint8(len(to))}
	copy(address.Addr[:], to)
	var sent error
	err := p.raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), packet, 0, address)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, os.NewSyscallError("sendto", sent))
}

// receive reads the payload of one reply and returns its interface. It skips outgoing packets.
func (p *packetSocket) receive(buf []byte) (n, index int, _ error) {
	packet := make([]byte, len(buf)+ipHeader+udpHeader)
	for {
		var (
			from unix.Sockaddr
			got  error
		)
		err := p.raw.Read(func(fd uintptr) bool {
			n, from, got = unix.Recvfrom(int(fd), packet, 0)
			return !errors.Is(got, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrClosed):
			return 0, 0, net.ErrClosed
		case err != nil:
			return 0, 0, err
		case got != nil:
			return 0, 0, os.NewSyscallError("recvfrom", got)
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if payload := payloadOf(packet[:n]); payload != nil {
			return copy(buf, payload), link.Ifindex, nil
		}
	}
}

// Close closes the socket and ends a pending receive.
func (p *packetSocket) Close() error { return p.file.Close() }

// networkOrder converts a number to network byte order.
func networkOrder(n uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, n))
}
