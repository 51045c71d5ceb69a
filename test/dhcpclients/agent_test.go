// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/agent/ipv6"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
)

// ordered makes the host one that is to boot the agent.
func ordered(h *pxe.Host) {
	h.Plan = pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Server: "192.0.2.1:8843", ServerIPv6: "[" + serverIPv6 + "]:8843", Pin: "pin", Token: "token"}}
}

var told = agentapi.BootOptions{Server: "[" + serverIPv6 + "]:8843", Pin: "pin", Token: "token", Files: "http://[" + serverIPv6 + "]:8880"}

// alone takes the host's IPv4 away.
func alone(h *pxe.Host) {
	h.Subnet, h.Address, h.Gateway = netip.Prefix{}, netip.Prefix{}, netip.Addr{}
}

// start configures the agent's IPv6 side in a room.
func start(ctx context.Context, t *testing.T, r *segment.Room, ask bool) (config *ipv6.Config, err error) {
	t.Helper()
	err = r.Do(func() (err error) {
		config, err = ipv6.Configure(ctx, "eth0", ipv6.Options{NeedBootOptions: ask, Log: t.Logf})
		return err
	})
	return config, err
}

// The agent gets an address as the network has them, and word of its order where it asks.
func TestAgentByIPv6(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix("2001:db8::/64")
	for _, tc := range []struct {
		name       string
		mode       func(*pxe.Host)
		advertised *pxe.Advertisement
		ask        bool
		address    string
		told       agentapi.BootOptions
	}{
		{"recorded, with a router", stateful, &pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateful}, true, hostIPv6, told},
		{"recorded, and no router", stateful, nil, true, hostIPv6, told},
		{"recorded, and nothing is asked", stateful, &pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateful}, false, hostIPv6, agentapi.BootOptions{}},
		{"made", stateless, &pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateless}, true, madeIPv6, told},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv, net, client := pair6(t, knownHost(tc.mode, ordered, alone))
			set(t, client, "eth0/accept_ra", "1")
			if tc.advertised != nil {
				here := room6(t)
				join(t, net, here, "eth0", "2001:db8::2/64", nil)
				advertise(t, here, *tc.advertised)
			}
			config, err := start(t.Context(), t, client, tc.ask)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(netip.MustParseAddr(tc.address), config.Address, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.told, config.BootOptions); diff != "" {
				t.Error(diff)
			}
			if !has(t, client, tc.address) || !hasRoute(t, client, "2001:db8::/64") {
				t.Error("the kernel has no such address, or no route to its neighbours")
			}
			if len(config.DNS) != 1 || config.DNS[0].String() != "2001:db8::53" {
				t.Errorf("names are resolved by %v", config.DNS)
			}
			if e := srv.wait(t, "a reply", at(pxe.StageAck)); !e.FromAgent {
				t.Errorf("event %+v is not known for the agent's", e)
			}
			again, err := config.Inform(t.Context(), "")
			if diff := cmp.Diff(told, again); diff != "" || err != nil {
				t.Error(err, diff)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			config.Keep(ctx) // ends, and closes the socket
		})
	}
}

// An interface on which nobody knows of an order is left as it was.
func TestAgentByIPv6WithoutAnOrder(t *testing.T) {
	t.Parallel()
	srv, _, client := pair6(t, knownHost(stateful, alone))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := start(ctx, t, client, true)
		ended <- err
	}()
	srv.wait(t, "the agent asks for an order", func(e pxe.BootEvent) bool { return strings.HasSuffix(e.Detail, "parameters only") })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if has(t, client, hostIPv6) {
		t.Error("the address is there still")
	}
}

// Of several addresses of its network the agent keeps the one that it is known by.
func TestAgentHasOneIPv6Address(t *testing.T) {
	t.Parallel()
	const another = "2001:db8::99"
	net, here, client := lan(t), room6(t), room6(t)
	join(t, net, here, "eth0", serverIPv6+"/64", nil)
	join(t, net, client, "eth0", another+"/64", hostMAC)
	serve6(t, here, serverIPv6, knownHost(stateful, ordered, alone))
	config, err := start(t.Context(), t, client, true)
	if err != nil {
		t.Fatal(err)
	}
	if config.Address.String() != hostIPv6 || !has(t, client, hostIPv6) || has(t, client, another) {
		t.Errorf("speaks from %s; the other is there: %v", config.Address, has(t, client, another))
	}
	if err := client.Do(config.Drop); err != nil {
		t.Error(err)
	}
	if has(t, client, hostIPv6) {
		t.Error("the address is there after it was given up")
	}
}

// An interface that is not the boot NIC takes nothing from routers.
func TestAgentIgnoresRoutersElsewhere(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix("2001:db8::/64")
	another := net.HardwareAddr{2, 0, 0, 0, 0, 0x99}
	_, lan, client := pair6(t, knownHost(stateless, ordered, alone))
	if err := client.Do(func() error { return ipv6.IgnoreRouterAdvertisements("none") }); err != nil {
		t.Errorf("an interface that has no IPv6: %v", err)
	}
	join(t, lan, client, "eth1", "", another)
	set(t, client, "eth0/accept_ra", "1")
	set(t, client, "eth1/accept_ra", "1")
	if err := client.Do(func() error { return ipv6.IgnoreRouterAdvertisements("eth1") }); err != nil {
		t.Fatal(err)
	}
	here := room6(t)
	join(t, lan, here, "eth0", "2001:db8::2/64", nil)
	advertise(t, here, pxe.Advertisement{Prefix: prefix, Mode: pxe.Stateless})
	if _, err := start(t.Context(), t, client, true); err != nil { // heard the router, by eth0
		t.Fatal(err)
	}
	err := client.Do(func() error {
		link, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		list, err := netlink.AddrList(link, netlink.FAMILY_V6)
		for _, a := range list {
			if a.IP.IsGlobalUnicast() {
				t.Errorf("eth1 has %s", a.IP)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
