// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
)

// behind is a server on one segment, a client on another, and a router between.
func behind(t *testing.T, host pxe.Host) (srv *server, router, client *segment.Room) {
	t.Helper()
	left, right := lan(t), lan(t)
	here := room(t)
	router, client = room(t), room(t)
	join(t, left, here, "eth0", serverIP+"/24", nil)
	join(t, left, router, "eth0", "192.0.2.254/24", nil)
	join(t, right, router, "eth1", "198.51.100.254/24", nil)
	join(t, right, client, "eth0", "", hostMAC)
	if err := router.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := here.Route(netip.MustParsePrefix("198.51.100.0/24"), netip.MustParseAddr("192.0.2.254")); err != nil {
		t.Fatal(err)
	}
	return serve(t, here, nil, host), router, client
}

func remote(h *pxe.Host) {
	h.Address, h.Gateway = netip.MustParsePrefix("198.51.100.17/24"), netip.MustParseAddr("198.51.100.254")
	h.Network, h.Routes = "rack-b", nil
}

// Behind a real relay a host gets the address of its own subnet, and the relay's
// word on where it is plugged in is known; it renews past the relay.
func TestRelays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, program string
		args          []string
		circuit       string
	}{
		{"dhcrelay", "dhcrelay", []string{"-4", "-d", "-a", "-i", "eth0", "-i", "eth1", serverIP}, "eth1"},
		{"dnsmasq", "dnsmasq", dnsmasqArgs(t, "", "--dhcp-relay=198.51.100.254,"+serverIP), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv, router, client := behind(t, knownHost(remote, func(h *pxe.Host) { h.LeaseTime = 6 * time.Second }))
			run(t, router, tc.program, tc.args...)
			path, dir := script(t)
			dhclient(t, client, path)
			if got := variables(t, dir, "BOUND"); got["new_ip_address"] != "198.51.100.17" || got["new_routers"] != "198.51.100.254" {
				t.Errorf("got %s by %s", got["new_ip_address"], got["new_routers"])
			}
			e := srv.wait(t, "an acknowledgement", at(pxe.StageAck))
			if e.Port.Relay.String() != "198.51.100.254" || e.Port.CircuitID != tc.circuit {
				t.Errorf("asked by %q", e.Port)
			}
			// Renewals come by unicast, through the router: the client needs its route.
			if err := client.Route(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("198.51.100.254")); err != nil {
				t.Fatal(err)
			}
			srv.wait(t, "a renewal past the relay", func(e pxe.BootEvent) bool {
				return e.Stage == pxe.StageAck && e.Client == netip.MustParseAddr("198.51.100.17") && !e.Port.Relay.IsValid()
			})
		})
	}
}

// A host that is registered with one network and plugged into another is told,
// and gets no address that does not work there.
func TestRelayOfTheWrongNetwork(t *testing.T) {
	t.Parallel()
	srv, router, client := behind(t, knownHost())
	run(t, router, "dhcrelay", "-4", "-d", "-a", "-i", "eth0", "-i", "eth1", serverIP)
	path, _ := script(t)
	udhcpc(t, client, path)
	e := srv.wait(t, "that the host is misplaced", at(pxe.StageWrongNetwork))
	if e.Port.Relay.String() != "198.51.100.254" {
		t.Errorf("event %+v", e)
	}
}
