// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// DHCPv4 neither answers nor reports a host on a network with IPv6 only, even with a relay.
func TestHostWithIPv6OnlyIsNotAnswered(t *testing.T) {
	for name, change := range map[string][]dhcpv4.Modifier{
		"on the segment": {class("PXEClient:Arch:00007:UNDI:003000")},
		"by a relay":     {class("PXEClient:Arch:00007:UNDI:003000"), giaddr("192.0.2.254")},
	} {
		t.Run(name, func(t *testing.T) {
			host := testHost(pxe.Agent)
			host.Address, host.Subnet, host.Gateway = netip.Prefix{}, netip.Prefix{}, netip.Addr{}
			host.IPv6 = pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("2001:db8::/64"), Address: netip.MustParseAddr("2001:db8::7")}
			a, err := Reply(testIdentity, directory(host), Query{Packet: message(dhcpv4.MessageTypeDiscover, change...).ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			if a.Packet != nil || a.Event.Stage != "" {
				t.Errorf("answered %x, event %+v", a.Packet, a.Event)
			}
		})
	}
}
