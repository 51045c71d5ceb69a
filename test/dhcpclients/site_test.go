// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

// patience bounds every wait; nothing takes nearly as long.
const patience = 60 * time.Second

const (
	serverIP = "192.0.2.1"
	hostIP   = "192.0.2.17"
)

var hostMAC = net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}

// knownHost is the host that the clients are.
func knownHost(changes ...func(*pxe.Host)) pxe.Host {
	h := pxe.Host{
		Namespace: "default", Name: "h1", MAC: hostMAC, Hostname: "h1", Network: "rack-a",
		Address: netip.MustParsePrefix(hostIP + "/24"), Gateway: netip.MustParseAddr("192.0.2.254"),
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")}, NTP: []netip.Addr{netip.MustParseAddr("192.0.2.123")},
		Domain: "dc1.example", Search: []string{"dc1.example", "example"}, MTU: 1400, LeaseTime: time.Hour,
		Routes: []pxe.Route{{Destination: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("192.0.2.253")}},
		Plan:   pxe.Plan{Kind: pxe.LocalDisk},
	}
	for _, change := range changes {
		change(&h)
	}
	return h
}

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

func lan(t *testing.T) *segment.Segment {
	t.Helper()
	s, err := segment.New()
	if errors.Is(err, segment.ErrNotAllowed) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// join puts a room on a segment; an empty address means none.
func join(t *testing.T, s *segment.Segment, r *segment.Room, name, address string, mac net.HardwareAddr) {
	t.Helper()
	p := segment.Port{MAC: mac}
	if address != "" {
		p.Address = netip.MustParsePrefix(address)
	}
	if err := s.Join(r, name, p); err != nil {
		t.Fatal(err)
	}
}

// server is our DHCP server in a room.
type server struct {
	mu     sync.Mutex
	events []pxe.BootEvent
	// table are its hosts, and bindings what it has seen of addresses that others gave.
	table    pxe.Table
	bindings *pxe.AddressBindings
}

// serve runs it at serverIP, on ports 67 and 4011, until the test ends.
func serve(t *testing.T, r *segment.Room, interfaces []string, hosts ...pxe.Host) *server {
	t.Helper()
	return serveAt(t, r, serverIP, interfaces, hosts...)
}

func serveAt(t *testing.T, r *segment.Room, address string, interfaces []string, hosts ...pxe.Host) *server {
	t.Helper()
	ip := netip.MustParseAddr(address)
	s := &server{table: pxe.Table{}, bindings: &pxe.AddressBindings{}}
	for _, h := range hosts {
		s.table[h.MAC.String()] = h
	}
	var (
		socket *dhcp.Socket
		binl   net.PacketConn
	)
	err := r.Do(func() (err error) {
		if socket, err = dhcp.Listen(context.Background(), dhcp.SocketConfig{Interfaces: interfaces, Source: ip}); err != nil {
			return err
		}
		binl, err = net.ListenPacket("udp4", address+":4011")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := &dhcp.Server{
		Identity:  dhcp.Identity{Address: ip, BaseURL: "http://" + address + ":8880", Loaders: dhcp.DefaultLoaders()},
		Directory: s.table, Bindings: s.bindings, Observer: pxe.ObserverFunc(s.observe),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- srv.Serve(ctx, socket) }()
	go func() { done <- srv.ServeBINL(ctx, binl) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server's events:\n%s", s.text())
		}
	})
	return s
}

func (s *server) observe(e pxe.BootEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *server) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, e := range s.events {
		fmt.Fprintf(&b, "%s %s (%s) %s\n", e.MAC, e.Stage, e.Port, e.Detail)
	}
	return b.String()
}

// wait waits for an event that fits, and returns it.
func (s *server) wait(t *testing.T, what string, fits func(pxe.BootEvent) bool) pxe.BootEvent {
	t.Helper()
	var found pxe.BootEvent
	waitFor(t, what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.IndexFunc(s.events, fits)
		if i >= 0 {
			found = s.events[i]
		}
		return i >= 0
	})
	return found
}

func at(stage pxe.Stage) func(pxe.BootEvent) bool {
	return func(e pxe.BootEvent) bool { return e.Stage == stage }
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	eventually.Wait{Limit: patience, Interval: 10 * time.Millisecond}.Until(t, what, eventually.Holds(holds))
}

// program is one that others wrote, running in a room.
type program struct {
	cmd    *exec.Cmd
	out    safeBuffer
	exited chan struct{}
	err    error
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// run starts a program and ends it with the test.
func run(t *testing.T, r *segment.Room, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(needs.Program(t, name), args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	p.cmd.WaitDelay = time.Second
	if err := r.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.out.String())
		}
	})
	return p
}

// script writes what DHCP clients call: it writes each occasion's variables to a
// file, and gives the interface its address.
func script(t *testing.T) (path, dir string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "script")
	text := `#!/bin/sh
reason=${reason:-$1}
env > "` + dir + `/tmp.$$"
case $reason in
BOUND) busybox ip addr add "$new_ip_address/24" dev "$interface" ;;
bound) busybox ip addr add "$ip/24" dev "$interface" ;;
esac
mv "` + dir + `/tmp.$$" "` + dir + `/$reason"
`
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, dir
}

// variables waits for an occasion and returns what the client was told.
func variables(t *testing.T, dir, reason string) map[string]string {
	t.Helper()
	var text []byte
	waitFor(t, "the client is "+reason, func() bool {
		var err error
		text, err = os.ReadFile(filepath.Join(dir, reason))
		return err == nil
	})
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		out[name] = value
	}
	return out
}
