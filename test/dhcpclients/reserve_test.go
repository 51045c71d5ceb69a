// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
)

// udhcpc starts busybox's client; it asks once a second.
func udhcpc(t *testing.T, r *segment.Room, script string, more ...string) *program {
	t.Helper()
	return run(t, r, "udhcpc", append([]string{"-f", "-i", "eth0", "-s", script, "-t", "20", "-T", "1"}, more...)...)
}

// dhclient starts ISC's.
func dhclient(t *testing.T, r *segment.Room, script string) *program {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	text := `initial-interval 1; backoff-cutoff 1; initial-delay 0;
option rfc3442 code 121 = array of unsigned integer 8;
request subnet-mask, routers, domain-name, domain-name-servers, host-name, ntp-servers, interface-mtu, domain-search, rfc3442;
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, r, "dhclient", "-4", "-d", "-cf", conf, "-sf", script, "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "eth0")
}

// pair is a server and a client on one segment.
func pair(t *testing.T, hosts ...pxe.Host) (*server, *segment.Segment, *segment.Room) {
	t.Helper()
	net, here, client := lan(t), room(t), room(t)
	join(t, net, here, "eth0", serverIP+"/24", nil)
	join(t, net, client, "eth0", "", hostMAC)
	return serve(t, here, nil, hosts...), net, client
}

func TestDhclientHearsAll(t *testing.T) {
	t.Parallel()
	srv, _, client := pair(t, knownHost())
	path, dir := script(t)
	dhclient(t, client, path)
	got := variables(t, dir, "BOUND")
	want := map[string]string{
		"new_ip_address": hostIP, "new_subnet_mask": "255.255.255.0", "new_routers": "192.0.2.254",
		"new_domain_name": "dc1.example", "new_domain_name_servers": "192.0.2.53", "new_host_name": "h1",
		"new_ntp_servers": "192.0.2.123", "new_interface_mtu": "1400", "new_domain_search": "dc1.example. example.",
		"new_rfc3442":                "0 192 0 2 254 8 10 192 0 2 253",
		"new_dhcp_lease_time":        "3600",
		"new_dhcp_renewal_time":      "1800",
		"new_dhcp_rebinding_time":    "3150",
		"new_dhcp_server_identifier": serverIP,
	}
	for name := range got {
		if _, wanted := want[name]; !wanted {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if e := srv.wait(t, "an acknowledgement", at(pxe.StageAck)); e.Port.Interface != "eth0" || e.Host != "default/h1" {
		t.Errorf("event %+v", e)
	}
}

// A client renews by unicast, from the address that it has.
func TestDhclientRenews(t *testing.T) {
	t.Parallel()
	srv, _, client := pair(t, knownHost(func(h *pxe.Host) { h.LeaseTime = 6 * time.Second }))
	path, dir := script(t)
	dhclient(t, client, path)
	variables(t, dir, "BOUND")
	srv.wait(t, "a renewal", func(e pxe.BootEvent) bool {
		return e.Stage == pxe.StageAck && e.Client == netip.MustParseAddr(hostIP)
	})
	if got := variables(t, dir, "RENEW"); got["new_ip_address"] != hostIP {
		t.Errorf("renewed %s", got["new_ip_address"])
	}
}

// Who has no address yet is answered by a frame to it alone, unless it asks for
// broadcast.
func TestUdhcpcIsAnsweredAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		flags []string
		heard bool
	}{
		{"by a frame", nil, false},
		{"by broadcast", []string{"-B"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, net68, client := pair(t, knownHost())
			witness := room(t)
			join(t, net68, witness, "eth0", "192.0.2.99/24", nil)
			var ear net.PacketConn
			if err := witness.Do(func() (err error) { ear, err = net.ListenPacket("udp4", "0.0.0.0:68"); return err }); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ear.Close() }()
			path, dir := script(t)
			udhcpc(t, client, path, append(tc.flags, "-q")...)
			if got := variables(t, dir, "bound"); got["ip"] != hostIP || got["router"] != "192.0.2.254" {
				t.Errorf("got %s by %s", got["ip"], got["router"])
			}
			// What was broadcast has been delivered: the client has its lease.
			_ = ear.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, _, err := ear.ReadFrom(make([]byte, 2048)); (err == nil) != tc.heard {
				t.Errorf("others heard it: %t, want %t", err == nil, tc.heard)
			}
		})
	}
}

// An address that somebody else has is declined, and then left alone.
func TestUdhcpcDeclines(t *testing.T) {
	t.Parallel()
	srv, net, client := pair(t, knownHost())
	squatter := room(t)
	join(t, net, squatter, "eth0", hostIP+"/24", nil)
	path, _ := script(t)
	udhcpc(t, client, path, "-a", "-A", "1")
	srv.wait(t, "a conflict", at(pxe.StageConflict))
	srv.wait(t, "that the address is withheld", func(e pxe.BootEvent) bool {
		return e.Stage == pxe.StageConflict && strings.Contains(e.Detail, "offers it again at")
	})
}

// A server with two interfaces answers on each by that interface, and tells who is
// plugged into the wrong one.
func TestTwoInterfaces(t *testing.T) {
	t.Parallel()
	left, right := lan(t), lan(t)
	here, a, b, lost := room(t), room(t), room(t), room(t)
	macB, macLost := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 3}
	join(t, left, here, "eth0", serverIP+"/24", nil)
	join(t, right, here, "eth1", "203.0.113.1/24", nil)
	join(t, left, a, "eth0", "", hostMAC)
	join(t, right, b, "eth0", "", macB)
	join(t, right, lost, "eth0", "", macLost)
	srv := serve(t, here, []string{"eth0", "eth1"}, knownHost(),
		knownHost(func(h *pxe.Host) { h.MAC, h.Address = macB, netip.MustParsePrefix("203.0.113.17/24") }),
		knownHost(func(h *pxe.Host) { h.MAC, h.Address = macLost, netip.MustParsePrefix("192.0.2.18/24") }))
	for r, want := range map[*segment.Room]string{a: hostIP, b: "203.0.113.17"} {
		path, dir := script(t)
		udhcpc(t, r, path, "-B", "-q")
		if got := variables(t, dir, "bound"); got["ip"] != want {
			t.Errorf("got %s, want %s", got["ip"], want)
		}
	}
	path, _ := script(t)
	udhcpc(t, lost, path)
	e := srv.wait(t, "that a host is misplaced", at(pxe.StageWrongNetwork))
	if e.MAC.String() != macLost.String() || e.Port.Interface != "eth1" {
		t.Errorf("event %+v", e)
	}
}

// An interface that is not named is not served: another server can be bound to it.
// One that is served already is refused, loudly.
func TestOneInterfaceEach(t *testing.T) {
	t.Parallel()
	left, right := lan(t), lan(t)
	here, a, b := room(t), room(t), room(t)
	join(t, left, here, "eth0", serverIP+"/24", nil)
	join(t, right, here, "eth1", "203.0.113.1/24", nil)
	join(t, left, a, "eth0", "", hostMAC)
	join(t, right, b, "eth0", "", hostMAC)
	serve(t, here, []string{"eth0"}, knownHost())
	err := here.Do(func() error {
		second, err := dhcp.Listen(t.Context(), dhcp.SocketConfig{Interfaces: []string{"eth0"}})
		if err == nil {
			_ = second.Close()
		}
		return err
	})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server on eth0: %v, want that the address is in use", err)
	}
	serveAt(t, here, "203.0.113.1", []string{"eth1"}, knownHost(func(h *pxe.Host) { h.Address = netip.MustParsePrefix("203.0.113.17/24") }))
	for r, want := range map[*segment.Room]string{a: serverIP, b: "203.0.113.1"} {
		path, dir := script(t)
		udhcpc(t, r, path, "-q")
		if got := variables(t, dir, "bound"); got["serverid"] != want {
			t.Errorf("the lease is of %s, want of %s", got["serverid"], want)
		}
	}
}

// An interface that is taken away and made anew under its name, as bonds and bridges
// are, is served again, though the kernel bound the socket to the first.
func TestInterfaceMadeAnew(t *testing.T) {
	t.Parallel()
	wire, here, host := lan(t), room(t), room(t)
	join(t, wire, here, "eth0", serverIP+"/24", nil)
	join(t, wire, host, "eth0", "", hostMAC)
	serve(t, here, []string{"eth0"}, knownHost())
	takeAway(t, here, "eth0")
	join(t, wire, here, "eth0", serverIP+"/24", nil)
	path, dir := script(t)
	udhcpc(t, host, path, "-q")
	if got := variables(t, dir, "bound"); got["serverid"] != serverIP {
		t.Errorf("the lease is of %s, want of %s", got["serverid"], serverIP)
	}
}

func takeAway(t *testing.T, r *segment.Room, name string) {
	t.Helper()
	err := r.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	here := room(t)
	err := here.Do(func() error {
		_, err := dhcp.Listen(t.Context(), dhcp.SocketConfig{Interfaces: []string{"lo", "eth7"}})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "eth7 does not exist") {
		t.Errorf("got %v", err)
	}
}

// dnsmasqArgs makes dnsmasq give addresses of a /24 from .200 on, or relay.
func dnsmasqArgs(t *testing.T, subnet string, more ...string) []string {
	t.Helper()
	args := []string{"--keep-in-foreground", "--log-facility=-", "--log-dhcp", "--port=0", "--conf-file=/dev/null", "--user=root",
		"--pid-file=", "--dhcp-leasefile=" + filepath.Join(t.TempDir(), "leases"), "--leasefile-ro", "--no-ping"}
	if subnet != "" {
		args = append(args, "--dhcp-authoritative", "--dhcp-range="+subnet+".200,"+subnet+".250,255.255.255.0,1h")
	}
	return append(args, more...)
}
