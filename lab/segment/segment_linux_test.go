// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package segment_test

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/segment"
)

func room(t *testing.T) *segment.Room {
	t.Helper()
	r, err := segment.NewRoom()
	if errors.Is(err, segment.ErrNotAllowed) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Two rooms on one segment hear each other, a third behind a router only by it.
func TestRoomsHearEachOther(t *testing.T) {
	a, router, b := room(t), room(t), room(t)
	left, err := segment.New()
	if err != nil {
		t.Fatal(err)
	}
	right, err := segment.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = left.Close(), right.Close() })
	mac := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 7}
	join := func(s *segment.Segment, r *segment.Room, name, address string, mac net.HardwareAddr) {
		t.Helper()
		if err := s.Join(r, name, segment.Port{MAC: mac, Address: netip.MustParsePrefix(address)}); err != nil {
			t.Fatal(err)
		}
	}
	join(left, a, "eth0", "192.0.2.1/24", mac)
	join(left, router, "eth0", "192.0.2.254/24", nil)
	join(right, router, "eth1", "198.51.100.254/24", nil)
	join(right, b, "eth0", "198.51.100.1/24", nil)
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	for _, err := range []error{router.Forward(), a.Route(everywhere, netip.MustParseAddr("192.0.2.254")), b.Route(everywhere, netip.MustParseAddr("198.51.100.254"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var listener net.PacketConn
	if err := b.Do(func() (err error) { listener, err = net.ListenPacket("udp4", "198.51.100.1:9"); return err }); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := a.Do(func() error {
		c, err := net.Dial("udp4", "198.51.100.1:9")
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Write([]byte("hello"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_ = listener.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 16)
	n, from, err := listener.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "hello" || !strings.HasPrefix(from.String(), "192.0.2.1:") {
		t.Errorf("heard %q from %v, %v", buf[:n], from, err)
	}
	var out strings.Builder
	cmd := exec.Command("cat", "/proc/net/dev") // of its own namespace
	cmd.Stdout = &out
	if err := a.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "eth0:") {
		t.Errorf("a program in the room sees %q, %v", out.String(), err)
	}
}
