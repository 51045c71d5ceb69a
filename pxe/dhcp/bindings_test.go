// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// In mode Proxy the DHCPREQUEST shows which address the host takes. Only that address gets the
// token. A neighbor that sends a packet with the host's MAC address from its own address gets
// none and changes nothing.
func TestTokenFollowsTheExchange(t *testing.T) {
	const neighbor, router, inside, outside = "192.0.2.66", "192.0.2.254", "192.0.2.99", "10.0.0.1"
	takes := func(ip string, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
		return message(dhcpv4.MessageTypeRequest, append(change, requested(ip), serverID("192.0.2.3"))...)
	}
	type packet struct {
		from string
		m    *dhcpv4.DHCPv4
	}
	for name, tc := range map[string]struct {
		earlier []packet
		client  string // requests the token
		want    bool
	}{
		"nothing was shown":                                {nil, right, false},
		"the host took it":                                 {[]packet{{"0.0.0.0", takes(right)}}, right, true},
		"the host took it, a neighbor asks":                {[]packet{{"0.0.0.0", takes(right)}}, neighbor, false},
		"a neighbor says it from its own address":          {[]packet{{neighbor, takes(neighbor)}}, neighbor, false},
		"by the relay":                                     {[]packet{{router, takes(right, giaddr(router))}}, right, true},
		"by the relay's other address":                     {[]packet{{outside, takes(right, giaddr(router))}}, right, true},
		"a neighbor says it in the relay's name":           {[]packet{{inside, takes(neighbor, giaddr(router))}}, neighbor, false},
		"an address of another network":                    {[]packet{{"0.0.0.0", takes("198.51.100.9")}}, "198.51.100.9", false},
		"another host took it since":                       {[]packet{{"0.0.0.0", takes(right)}, {"0.0.0.0", takes(right, mac("52:54:00:12:34:57"))}}, right, false},
		"an unknown client took it since: not remembered":  {[]packet{{"0.0.0.0", takes(right)}, {"0.0.0.0", takes(right, mac("52:54:00:12:34:58"))}}, right, true},
		"the host looks for an address and takes none yet": {[]packet{{"0.0.0.0", message(dhcpv4.MessageTypeDiscover, requested(right))}}, right, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := testHost(pxe.Agent)
			host.Mode, host.Subnet, host.Address = pxe.Proxy, netip.MustParsePrefix("192.0.2.0/24"), netip.Prefix{}
			other := host
			other.Name, other.MAC = "server-2", net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x57}
			d := newDesk(t, host, other)
			d.Bindings = &pxe.AddressBindings{Now: d.Now}
			decide := func(q Query) (Answer, error) { return Reply(d.Identity, d.Directory, q) }
			for _, p := range tc.earlier {
				d.handle(&d.out, Query{Packet: p.m.ToBytes(), From: netip.AddrPortFrom(netip.MustParseAddr(p.from), 68)}, decide)
			}
			d.out.answers = nil
			inform := message(dhcpv4.MessageTypeInform, ciaddr(tc.client), class(agentapi.VendorClass),
				option(55, agentapi.OptionServer, agentapi.OptionPin, agentapi.OptionToken, agentapi.OptionFiles))
			d.handle(&d.out, Query{Packet: inform.ToBytes(), From: netip.AddrPortFrom(netip.MustParseAddr(tc.client), 68)}, decide)
			got := false
			for _, a := range d.out.answers {
				r, err := dhcpv4.FromBytes(a.Packet)
				if err != nil {
					t.Fatal(err)
				}
				got = got || r.Options.Has(dhcpv4.GenericOptionCode(agentapi.OptionToken))
			}
			if got != tc.want {
				t.Errorf("token given: %t, want %t", got, tc.want)
			}
			if shown := host.MayUseAddress(netip.MustParseAddr(tc.client), d.Bindings.At(netip.MustParseAddr(tc.client))); shown != tc.want {
				t.Errorf("the boot script goes to %s: %t, want %t", tc.client, shown, tc.want)
			}
		})
	}
}
