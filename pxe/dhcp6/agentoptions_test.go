// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
)

// Which clients get the agent's options, and the IP family of the session.
func TestAgentOptions(t *testing.T) {
	ipv4 := func(h *pxe.Host) { h.Address = netip.MustParsePrefix("192.0.2.17/24") }
	stateless := func(h *pxe.Host) { h.IPv6.Mode, h.IPv6.Address = pxe.Stateless, netip.Addr{} }
	for name, tc := range map[string]struct {
		change []func(*pxe.Host)
		class  change
		asks   bool
		want   string
	}{
		"recorded, IPv6 alone":        {class: agent(), asks: true, want: "[2001:db8::1]:8843 pin token http://[2001:db8::1]:8880"},
		"recorded, with IPv4":         {change: []func(*pxe.Host){ipv4}, class: agent(), asks: true, want: "[2001:db8::1]:8843 pin token http://[2001:db8::1]:8880"},
		"made, IPv6 alone":            {change: []func(*pxe.Host){stateless}, class: agent(), asks: true, want: "[2001:db8::1]:8843 pin token http://[2001:db8::1]:8880"},
		"made, with IPv4":             {change: []func(*pxe.Host){stateless, ipv4}, class: agent(), asks: true},
		"made, with another server's": {change: []func(*pxe.Host){stateless, ipv4, func(h *pxe.Host) { h.Mode = pxe.Proxy }}, class: agent(), asks: true, want: "[2001:db8::1]:8843 pin token http://[2001:db8::1]:8880"},
		"it came by a CD":             {change: []func(*pxe.Host){func(h *pxe.Host) { h.Plan.Agent.Method = pxe.BootVirtualMedia }}, class: agent(), asks: true, want: "[2001:db8::1]:8843 pin  http://[2001:db8::1]:8880"},
		"no IPv6 listener":            {change: []func(*pxe.Host){func(h *pxe.Host) { h.Plan.Agent.ServerIPv6 = "" }}, class: agent(), asks: true},
		"nothing is to be done":       {change: []func(*pxe.Host){func(h *pxe.Host) { h.Plan.Kind = pxe.LocalDisk }}, class: agent(), asks: true},
		"it does not ask":             {class: agent()},
		"firmware asks":               {class: uefi(), asks: true},
		"a system asks":               {class: with(), asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			host := testHost(pxe.Agent)
			for _, c := range tc.change {
				c(&host)
			}
			m := message(dhcpv6.MessageTypeInformationRequest, tc.class)
			if tc.asks {
				asks(dhcpv6.OptionVendorOpts)(m)
			}
			a, err := Reply(testIdentity, directory(host), Query{Packet: m.ToBytes(), From: linkLocal})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tellAll(t, a)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The token is sent to the host's own network and to its listed relays, but not to a machine
// that forwards requests from the server's segment.
func TestTokenByRelay(t *testing.T) {
	const all, but = "[2001:db8::1]:8843 pin token http://[2001:db8::1]:8880", "[2001:db8::1]:8843 pin  http://[2001:db8::1]:8880"
	here := netip.MustParseAddr("2001:db8:0:ffff::7")
	for name, tc := range map[string]struct {
		from   string
		relays []netip.Addr
		want   string
	}{
		"of the host's network":          {"[2001:db8::fe]:547", nil, all},
		"of the segment between":         {"[2001:db8:0:ffff::7]:547", nil, but},
		"of the segment between, named":  {"[2001:db8:0:ffff::7]:547", []netip.Addr{here}, all},
		"by a link-local address":        {"[fe80::7%eth0]:547", nil, but},
		"by a link-local address, named": {"[fe80::7%eth0]:547", []netip.Addr{netip.MustParseAddr("fe80::7")}, all},
	} {
		t.Run(name, func(t *testing.T) {
			host := testHost(pxe.Agent)
			host.IPv6.Relays = tc.relays
			inner := message(dhcpv6.MessageTypeInformationRequest, agent(), asks(dhcpv6.OptionVendorOpts))
			packet := relayed(inner, "2001:db8::fe", linkLocal.Addr().String(), dhcpv6.OptClientLinkLayerAddress(iana.HWTypeEthernet, hostMAC))
			a, err := Reply(testIdentity, directory(host), Query{Packet: packet.ToBytes(), From: netip.MustParseAddrPort(tc.from), Link: Link{Subnets: between}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tellAll(t, a)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
