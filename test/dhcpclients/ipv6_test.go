// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
	"github.com/ingot-metal/ingot/pxe/links"
	"github.com/ingot-metal/ingot/pxe/ra"
)

const (
	serverIPv6 = "2001:db8::1"
	hostIPv6   = "2001:db8::17"
	// madeIPv6 is what the kernel makes of the prefix and hostMAC.
	madeIPv6 = "2001:db8::5054:ff:fe12:3456"
)

// stateful makes the host one that is given an IPv6 address, and stateless one that
// makes it.
func stateful(h *pxe.Host) {
	h.IPv6 = pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("2001:db8::/64"), Address: netip.MustParseAddr(hostIPv6)}
	h.DNS = append(h.DNS, netip.MustParseAddr("2001:db8::53"))
}

func stateless(h *pxe.Host) {
	stateful(h)
	h.IPv6.Mode, h.IPv6.Address = pxe.Stateless, netip.Addr{}
}

// room6 is a room whose addresses can be used at once: nobody looks for duplicates.
func room6(t *testing.T) *segment.Room {
	t.Helper()
	r := room(t)
	set(t, r, "default/dad_transmits", "0")
	return r
}

func set(t *testing.T, r *segment.Room, name, value string) {
	t.Helper()
	err := r.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/"+name, []byte(value), 0) })
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skipf("no IPv6 here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve6 runs our DHCPv6 server in a room until the test ends, or stop is called.
func serve6(t *testing.T, r *segment.Room, address string, hosts ...pxe.Host) (s *server, stop func()) {
	t.Helper()
	s = &server{}
	table := pxe.Table{}
	for _, h := range hosts {
		table[h.MAC.String()] = h
	}
	var socket *dhcp6.Socket
	err := r.Do(func() (err error) { socket, err = dhcp6.Listen(context.Background(), dhcp6.SocketConfig{}); return err })
	if err != nil {
		t.Fatal(err)
	}
	srv := &dhcp6.Server{
		Identity:  dhcp6.NewIdentity(netip.MustParseAddr(address), "http://["+address+"]:8880", dhcp.DefaultLoaders()),
		Directory: table, Observer: pxe.ObserverFunc(s.observe),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ctx, socket); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the events of %s:\n%s", address, s.text())
		}
	})
	return s, stop
}

// The same of the server for IPv6, which has to join its groups there, too.
func TestInterfaceMadeAnewIPv6(t *testing.T) {
	t.Parallel()
	wire, here, host := lan(t), room6(t), room6(t)
	join(t, wire, here, "eth0", serverIPv6+"/64", nil)
	join(t, wire, host, "eth0", "", hostMAC)
	var socket *dhcp6.Socket
	err := here.Do(func() (err error) {
		socket, err = dhcp6.Listen(t.Context(), dhcp6.SocketConfig{Interfaces: []string{"eth0"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	takeAway(t, here, "eth0")
	join(t, wire, here, "eth0", serverIPv6+"/64", nil)
	waitFor(t, "the client has a link-local address", func() bool { return has(t, host, "fe80::") })
	var asker net.Conn
	waitFor(t, "the client has the route of multicast, which comes after the address", func() bool {
		return host.Do(func() (err error) { asker, err = net.Dial("udp6", "[ff02::1:2%eth0]:547"); return err }) == nil
	})
	t.Cleanup(func() { _ = asker.Close() })
	waitFor(t, "the server hears what all servers are asked", func() bool {
		_, _ = asker.Write([]byte("who is there")) // until the server has joined, nobody takes it
		_ = socket.SetReadDeadline(time.Now().Add(time.Second))
		q, err := socket.Receive(make([]byte, 100))
		return err == nil && string(q.Packet) == "who is there"
	})
}

// dhclient6 starts ISC's client for IPv6.
func dhclient6(t *testing.T, r *segment.Room, script string, more ...string) *program {
	t.Helper()
	waitFor(t, "the client has a link-local address", func() bool { return has(t, r, "fe80::") })
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	text := "request dhcp6.name-servers, dhcp6.domain-search;\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-6", "-d", "-cf", conf, "-sf", script, "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid")}
	return run(t, r, "dhclient", append(append(args, more...), "eth0")...)
}

// pair6 is a server and a client on one segment.
func pair6(t *testing.T, host pxe.Host) (*server, *segment.Segment, *segment.Room) {
	t.Helper()
	net, here, client := lan(t), room6(t), room6(t)
	join(t, net, here, "eth0", serverIPv6+"/64", nil)
	join(t, net, client, "eth0", "", hostMAC)
	s, _ := serve6(t, here, serverIPv6, host)
	return s, net, client
}

func pick(got map[string]string, names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = got[name]
	}
	return out
}

func TestDhclient6(t *testing.T) {
	t.Parallel()
	srv, _, client := pair6(t, knownHost(stateful))
	path, dir := script(t)
	dhclient6(t, client, path)
	want := map[string]string{"new_ip6_address": hostIPv6, "new_dhcp6_name_servers": "2001:db8::53", "new_max_life": "3600",
		"new_dhcp6_domain_search": "dc1.example. example."}
	got := variables(t, dir, "BOUND6")
	if diff := cmp.Diff(want, pick(got, "new_ip6_address", "new_dhcp6_name_servers", "new_max_life", "new_dhcp6_domain_search")); diff != "" {
		t.Error(diff)
	}
	if e := srv.wait(t, "a reply", at(pxe.StageAck)); e.Port.Interface != "eth0" || e.Host != "default/h1" {
		t.Errorf("event %+v", e)
	}
}

func TestDhclient6Renews(t *testing.T) {
	t.Parallel()
	_, _, client := pair6(t, knownHost(stateful, func(h *pxe.Host) { h.LeaseTime = 6 * time.Second }))
	path, dir := script(t)
	dhclient6(t, client, path)
	variables(t, dir, "BOUND6")
	if got := variables(t, dir, "RENEW6"); got["new_ip6_address"] != hostIPv6 {
		t.Errorf("renewed %s", got["new_ip6_address"])
	}
}

// A client whose server is gone is served by another replica, with the same address. It
// rebinds, or where its timers are too slow for so short a lease, begins anew.
func TestDhclient6AndTwoReplicas(t *testing.T) {
	t.Parallel()
	net, one, two, client := lan(t), room6(t), room6(t), room6(t)
	join(t, net, one, "eth0", serverIPv6+"/64", nil)
	join(t, net, two, "eth0", "2001:db8::2/64", nil)
	join(t, net, client, "eth0", "", hostMAC)
	host := knownHost(stateful, func(h *pxe.Host) { h.LeaseTime = 6 * time.Second })
	first, stopFirst := serve6(t, one, serverIPv6, host)
	second, stopSecond := serve6(t, two, "2001:db8::2", host)
	path, dir := script(t)
	dhclient6(t, client, path)
	was := variables(t, dir, "BOUND6")["new_dhcp6_server_id"]
	both := first.text() + second.text()
	if n := strings.Count(both, string(pxe.StageAck)+" "); n != 1 {
		t.Errorf("%d replicas gave the lease:\n%s", n, both)
	}
	stop, left := stopFirst, second
	if strings.Contains(second.text(), string(pxe.StageAck)+" ") {
		stop, left = stopSecond, first
	}
	stop()
	left.wait(t, "that the other replica serves it", at(pxe.StageAck))
	waitFor(t, "the client is another replica's", func() bool {
		for _, reason := range []string{"BOUND6", "REBIND6", "RENEW6"} {
			if _, err := os.Stat(filepath.Join(dir, reason)); err != nil {
				continue
			}
			now := variables(t, dir, reason)
			if now["new_ip6_address"] != hostIPv6 {
				t.Fatalf("%s: has %q now", reason, now["new_ip6_address"])
			}
			if now["new_dhcp6_server_id"] != was {
				return true
			}
		}
		return false
	})
}

func TestDhclient6Stateless(t *testing.T) {
	t.Parallel()
	srv, _, client := pair6(t, knownHost(stateless))
	path, dir := script(t)
	dhclient6(t, client, path, "-S")
	if got := variables(t, dir, "RENEW6"); got["new_dhcp6_name_servers"] != "2001:db8::53" || got["new_ip6_address"] != "" {
		t.Errorf("told %v", pick(got, "new_ip6_address", "new_dhcp6_name_servers"))
	}
	srv.wait(t, "a reply", at(pxe.StageAck))
}

// Who is not known hears nothing, although its system has a known host's DUID.
func TestDhclient6OfAnotherCard(t *testing.T) {
	t.Parallel()
	net, here, client := lan(t), room6(t), room6(t)
	join(t, net, here, "eth0", serverIPv6+"/64", nil)
	join(t, net, client, "eth0", "", hardware(9))
	srv, _ := serve6(t, here, serverIPv6, knownHost(stateful))
	path, dir := script(t)
	lease := filepath.Join(t.TempDir(), "leases")
	text := "default-duid \"\\000\\003\\000\\001RT\\000\\0224V\";\n" // DUID-LL of hostMAC
	if err := os.WriteFile(lease, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := dhclient6(t, client, path, "-lf", lease)
	waitFor(t, "the client asks twice", func() bool { return strings.Count(p.out.String(), "XMT: Solicit") >= 2 })
	if _, err := os.Stat(filepath.Join(dir, "BOUND6")); err == nil || srv.text() != "" {
		t.Errorf("it was answered: %s", srv.text())
	}
}

func hardware(last byte) net.HardwareAddr { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, last} }

// Behind real relays a host gets the address of its own subnet.
func TestRelays6(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, program string
		args          []string
		port          bool // it says by which interface
	}{
		{"dhcrelay", "dhcrelay", []string{"-6", "-d", "-I", "-l", "eth1", "-u", serverIPv6 + "%eth0"}, true},
		{"dnsmasq", "dnsmasq", dnsmasqArgs(t, "", "--dhcp-relay=2001:db8:1::fe,"+serverIPv6), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			left, right := lan(t), lan(t)
			here, router, client := room6(t), room6(t), room6(t)
			join(t, left, here, "eth0", serverIPv6+"/64", nil)
			join(t, left, router, "eth0", "2001:db8::fe/64", nil)
			join(t, right, router, "eth1", "2001:db8:1::fe/64", nil)
			join(t, right, client, "eth0", "", hostMAC)
			if err := here.Route(netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParseAddr("2001:db8::fe")); err != nil {
				t.Fatal(err)
			}
			srv, _ := serve6(t, here, serverIPv6, knownHost(stateful, func(h *pxe.Host) {
				h.IPv6.Subnet, h.IPv6.Address = netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParseAddr("2001:db8:1::17")
			}))
			run(t, router, tc.program, tc.args...)
			path, dir := script(t)
			dhclient6(t, client, path)
			if got := variables(t, dir, "BOUND6"); got["new_ip6_address"] != "2001:db8:1::17" {
				t.Errorf("got %s", got["new_ip6_address"])
			}
			e := srv.wait(t, "a reply", at(pxe.StageAck))
			if !e.Port.Relay.IsValid() || (e.Port.CircuitID != "") != tc.port {
				t.Errorf("asked by %q", e.Port)
			}
		})
	}
}

// networks are advertised.
type networks []pxe.Advertisement

func (n networks) Advertisements() []pxe.Advertisement { return n }

// advertise runs our router advertisements in a room until the test ends.
func advertise(t *testing.T, r *segment.Room, n pxe.Advertisement) {
	t.Helper()
	var socket *ra.Socket
	err := r.Do(func() (err error) { socket, err = ra.Listen(context.Background(), ra.SocketConfig{}); return err })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- (&ra.Server{Networks: networks{n}}).Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The kernel believes what we advertise: it makes an address where it is to, and takes
// us for a default router only where it is to.
func TestKernelHearsAdvertisements(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix("2001:db8::/64")
	for _, tc := range []struct {
		name   string
		says   pxe.Advertisement
		makes  bool
		router bool
	}{
		{"stateless", pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateless}, true, false},
		{"stateless, with a router", pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateless, RouterLifetime: time.Hour}, true, true},
		{"stateful, with a router", pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateful, RouterLifetime: time.Hour}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			net, here, client := lan(t), room6(t), room6(t)
			set(t, client, "default/accept_ra", "1")
			join(t, net, here, "eth0", serverIPv6+"/64", nil)
			join(t, net, client, "eth0", "", hostMAC)
			advertise(t, here, tc.says)
			waitFor(t, "the prefix is on the link", func() bool { return hasRoute(t, client, "2001:db8::/64") })
			waitFor(t, fmt.Sprintf("address %t, router %t", tc.makes, tc.router), func() bool {
				return has(t, client, madeIPv6) == tc.makes && hasRoute(t, client, "default") == tc.router
			})
		})
	}
}

// has says whether an address that begins so can be used.
func has(t *testing.T, r *segment.Room, address string) bool {
	t.Helper()
	found := false
	inspect(t, r, func(h *netlink.Handle, link netlink.Link) error {
		list, err := h.AddrList(link, netlink.FAMILY_V6)
		for _, a := range list {
			found = found || (strings.HasPrefix(a.IP.String(), address) && a.Flags&unix.IFA_F_TENTATIVE == 0)
		}
		return err
	})
	return found
}

func hasRoute(t *testing.T, r *segment.Room, to string) bool {
	t.Helper()
	found := false
	inspect(t, r, func(h *netlink.Handle, link netlink.Link) error {
		list, err := h.RouteList(link, netlink.FAMILY_V6)
		for _, route := range list {
			bare := route.Dst == nil || route.Dst.String() == "::/0"
			found = found || (to == "default" && bare) || (!bare && route.Dst.String() == to)
		}
		return err
	})
	return found
}

func inspect(t *testing.T, r *segment.Room, look func(*netlink.Handle, netlink.Link) error) {
	t.Helper()
	err := r.Do(func() error {
		h, err := netlink.NewHandle(netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName("eth0")
		if err != nil {
			return err
		}
		return look(h, link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the servers know of a machine's interfaces.
func TestLinks(t *testing.T) {
	t.Parallel()
	net, here := lan(t), room6(t)
	join(t, net, here, "eth0", serverIPv6+"/64", hostMAC)
	join(t, net, here, "eth1", serverIP+"/24", hardware(2))
	var known *links.Links
	if err := here.Do(func() (err error) { known, err = links.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = known.Close() }()
	got := map[string]string{}
	for _, link := range known.All() {
		got[link.Name] = fmt.Sprintf("%s %s %s", link.Hardware, link.Subnets, link.OtherSubnets)
	}
	want := map[string]string{
		"eth0": fmt.Sprintf("%s %s %s", hostMAC, "[2001:db8::/64]", "[192.0.2.0/24]"),
		"eth1": fmt.Sprintf("%s %s %s", hardware(2), "[192.0.2.0/24]", "[2001:db8::/64]"),
	}
	delete(got, "lo") // in which order it names the others is the kernel's affair
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	err := here.Do(func() error { _, err := links.Open("eth1", "eth7"); return err })
	if err == nil || !strings.Contains(err.Error(), "eth7 does not exist") {
		t.Errorf("opened with a missing interface: %v", err)
	}
}
