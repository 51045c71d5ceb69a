// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/network"
)

// timeout bounds operations that would otherwise hang.
const timeout = 30 * time.Second

func newStack(t *testing.T, sw *network.Switch, name, address string) *network.Stack {
	t.Helper()
	cfg := network.StackConfig{Name: name}
	if address != "" {
		cfg.Address = netip.MustParsePrefix(address)
	}
	s, err := network.NewStack(sw, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newSwitch(t *testing.T) *network.Switch {
	t.Helper()
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	return sw
}

func TestStackCarriesHTTP(t *testing.T) {
	sw := newSwitch(t)
	server := newStack(t, sw, "server", "192.0.2.1/24")
	client := newStack(t, sw, "client", "192.0.2.2/24")
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB

	l, err := server.ListenTCP(8880)
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(body)
	}), ReadHeaderTimeout: timeout}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()

	hc := &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: client.DialContext}}
	resp, err := hc.Get("http://192.0.2.1:8880/")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(body) {
		t.Errorf("body of %d bytes arrived as %d other bytes", len(body), len(got))
	}
	if err := hs.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve ended with %v", err)
	}
	if name, ok := sw.PortOf(client.MAC()); !ok || name != "client" {
		t.Errorf("PortOf(client) = %q, %v", name, ok)
	}
}

func TestUnconfiguredClientTalksByBroadcast(t *testing.T) {
	sw := newSwitch(t)
	server := newStack(t, sw, "server", "192.0.2.1/24")
	client := newStack(t, sw, "client", "")

	sc, err := server.ListenUDP(67)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := client.ListenUnconfigured(68)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(timeout)
	_, _ = sc.SetReadDeadline(deadline), cc.SetReadDeadline(deadline)

	if _, err := cc.WriteTo([]byte("discover"), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, from, err := sc.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(buf[:n])+" from "+from.String(), "discover from 0.0.0.0:68"; got != want {
		t.Errorf("server got %q, want %q", got, want)
	}
	if _, err := sc.WriteTo([]byte("offer"), &net.UDPAddr{IP: net.IPv4bcast, Port: 68}); err != nil {
		t.Fatal(err)
	}
	n, from, err = cc.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(buf[:n])+" from "+from.String(), "offer from 192.0.2.1:67"; got != want {
		t.Errorf("client got %q, want %q", got, want)
	}

	// With the lease, the same stack uses unicast.
	if err := cc.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.SetAddress(netip.MustParsePrefix("192.0.2.9/24"), netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := client.DialContext(ctx, "udp", "192.0.2.1:67")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("renew")); err != nil {
		t.Fatal(err)
	}
	n, from, err = sc.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	if host, _, _ := net.SplitHostPort(from.String()); string(buf[:n]) != "renew" || host != "192.0.2.9" {
		t.Errorf("server got %q from %s", buf[:n], from)
	}
}

func TestClosedSocketReportsErrClosed(t *testing.T) {
	s := newStack(t, newSwitch(t), "server", "192.0.2.1/24")
	pc, err := s.ListenUDP(0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.ListenTCP(80)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	go func() { _, _, err := pc.ReadFrom(make([]byte, 1)); errs <- err }()
	go func() { _, err := l.Accept(); errs <- err }()
	_, _ = pc.Close(), l.Close()
	for range 2 {
		select {
		case err := <-errs:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v, want net.ErrClosed", err)
			}
		case <-time.After(timeout):
			t.Fatal("a closed socket still blocks its reader")
		}
	}
	if l, err = s.ListenTCP(80); err != nil {
		t.Fatalf("the port is not free after Close: %v", err)
	}
	_ = l.Close()
}

func TestDialRejectsUnsupportedAddresses(t *testing.T) {
	s := newStack(t, newSwitch(t), "client", "192.0.2.2/24")
	for _, tc := range []struct{ name, network, addr string }{
		{"a name", "tcp", "example.org:80"},
		{"IPv6", "tcp", "[2001:db8::1]:80"},
		{"no port", "tcp", "192.0.2.1"},
		{"a port out of range", "tcp", "192.0.2.1:70000"},
		{"another network", "unix", "192.0.2.1:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if c, err := s.DialContext(context.Background(), tc.network, tc.addr); err == nil {
				_ = c.Close()
				t.Error("dialed")
			}
		})
	}
}

// TestIPv6 uses IPv6 together with IPv4, with addresses and a multicast group.
func TestIPv6(t *testing.T) {
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	open := func(name, address, mac string) *network.Stack {
		hardware, err := net.ParseMAC(mac)
		if err != nil {
			t.Fatal(err)
		}
		st, err := network.NewStack(sw, network.StackConfig{Name: name, MAC: hardware})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		if err := st.SetIPv6(netip.MustParsePrefix(address)); err != nil {
			t.Fatal(err)
		}
		return st
	}
	group := netip.MustParseAddr("ff02::1:2")
	here, there := open("here", "2001:db8::1/64", "52:54:00:12:34:56"), open("there", "2001:db8::2/64", "52:54:00:12:34:57")
	asks, err := here.ListenUDPIPv6(546)
	if err != nil {
		t.Fatal(err)
	}
	hears, err := there.ListenUDPIPv6(547, group)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asks.WriteTo([]byte("who is there"), net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, 547))); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, from, err := hears.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "who is there" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	want := netip.MustParseAddrPort("[fe80::5054:ff:fe12:3456]:546")
	if got := from.(*net.UDPAddr).AddrPort(); got != want {
		t.Errorf("a group is asked from %s, want %s", got, want)
	}
	l, err := there.ListenTCPIPv6(netip.MustParseAddrPort("[2001:db8::2]:80"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			accepted <- err.Error()
			return
		}
		accepted <- c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().String()
		_ = c.Close()
	}()
	c, err := here.DialContext(t.Context(), "tcp", "[2001:db8::2]:80")
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got := <-accepted; got != "2001:db8::1" {
		t.Errorf("%s connects, want 2001:db8::1", got)
	}
	// A removed address no longer answers.
	if err := here.SetIPv6(netip.Prefix{}); err != nil {
		t.Fatal(err)
	}
	if c, err := here.DialContext(t.Context(), "tcp", "[2001:db8::2]:80"); err == nil {
		_ = c.Close()
		t.Error("connected without an address of the network")
	}
	if _, err := asks.WriteTo(nil, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}); err == nil {
		t.Error("an IPv6 socket speaks to an IPv4 address")
	}
	if err := here.SetIPv6(netip.MustParsePrefix("192.0.2.1/24")); err == nil {
		t.Error("an IPv4 address was taken for an IPv6 one")
	}
}
