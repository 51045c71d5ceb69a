// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/netns"
	"github.com/ingot-metal/ingot/test/needs"
)

// A packet that was too long for a router is lost like any other: reading and sending continue.
func TestTooLong(t *testing.T) {
	var server, client *net.UDPConn
	var router *icmp.PacketConn
	loopback := net.IPv4(127, 0, 0, 1)
	err := netns.Do(emptyNetwork(t), func() (err error) {
		if client, err = net.ListenUDP("udp4", &net.UDPAddr{IP: loopback}); err != nil {
			return err
		}
		if server, err = net.DialUDP("udp4", &net.UDPAddr{IP: loopback}, client.LocalAddr().(*net.UDPAddr)); err != nil {
			return err
		}
		router, err = icmp.ListenPacket("ip4:icmp", "127.0.0.1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range []net.PacketConn{server, client, router} {
		t.Cleanup(func() { _ = conn.Close() })
	}
	s := &ownSocket{Conn: server}
	tooLong := func() {
		t.Helper()
		if _, err := router.WriteTo(fragmentationNeeded(t, server, client.LocalAddr().(*net.UDPAddr).AddrPort()), &net.IPAddr{IP: loopback}); err != nil {
			t.Fatal(err)
		}
	}
	ack := []byte{0, opAck, 0, 1}

	tooLong()
	if _, err := client.WriteTo(ack, server.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.receive(time.Now().Add(10 * time.Second)); err != nil || string(got) != string(ack) {
		t.Errorf("read %q, %v, want the acknowledgment", got, err)
	}

	tooLong()
	if err := s.send([]byte("block"), 512); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 512)
	check(t, client.SetReadDeadline(time.Now().Add(10*time.Second)))
	if n, err := client.Read(buf); err != nil || string(buf[:n]) != "block" {
		t.Errorf("the client read %q, %v, want what was sent", buf[:n], err)
	}
}

// emptyNetwork is a network namespace with loopback only, where the kernel may store path MTUs.
func emptyNetwork(t *testing.T) string {
	t.Helper()
	path := needs.Namespace(t)
	check(t, netns.Do(path, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		loopback, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		loopback.SetUint16(unix.IFF_UP)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback)
	}))
	return path
}

// fragmentationNeeded is the answer of a router that dropped a packet (RFC 1191 section 4).
func fragmentationNeeded(t *testing.T, from *net.UDPConn, to netip.AddrPort) []byte {
	t.Helper()
	sender := from.LocalAddr().(*net.UDPAddr).AddrPort()
	dropped, err := (&ipv4.Header{
		Version: ipv4.Version, Len: ipv4.HeaderLen, TotalLen: 1500, TTL: 63, Protocol: unix.IPPROTO_UDP, Flags: ipv4.DontFragment,
		Src: sender.Addr().AsSlice(), Dst: to.Addr().AsSlice(),
	}).Marshal()
	check(t, err)
	for _, field := range []uint16{sender.Port(), to.Port(), 1480, 0} {
		dropped = binary.BigEndian.AppendUint16(dropped, field)
	}
	message := icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: 4, Body: &icmp.DstUnreach{Data: dropped}}
	b, err := message.Marshal(nil)
	check(t, err)
	binary.BigEndian.PutUint16(b[6:], 1450) // MTU of the next hop, which the library does not support
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint16(b[2:], ^onesSum(b))
	return b
}

// onesSum is the ones' complement sum (RFC 1071) of bytes of an even number.
func onesSum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
