// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// lodging is a Directory without hosts that records requests and gives no addresses.
type lodging struct {
	pxe.Table
	asked []pxe.UnknownClient
}

func (l *lodging) Discover(s pxe.UnknownClient) (pxe.Host, bool) {
	l.asked = append(l.asked, s)
	return pxe.Host{}, false
}

// The directory gets the details of an unknown client's request. A request from outside of the
// segment is ignored: it could prevent the discovery of the machine whose MAC address it has.
func TestUnknownClients(t *testing.T) {
	rom := class("PXEClient:Arch:00007:UNDI:003016")
	here := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	mine, addr := netip.MustParseAddr(ours), netip.MustParseAddr
	nic := net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	for _, tc := range []struct {
		name string
		in   *dhcpv4.DHCPv4
		from string
		want []pxe.UnknownClient
	}{
		{"firmware looks for an address", message(dhcpv4.MessageTypeDiscover, rom), "0.0.0.0:68", []pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine}}},
		{"takes ours", message(dhcpv4.MessageTypeRequest, rom, serverID(ours), requested(right)), "0.0.0.0:68",
			[]pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, RequestedAddress: addr(right)}}},
		{"takes another's", message(dhcpv4.MessageTypeRequest, rom, serverID(theirs), requested(right)), "0.0.0.0:68",
			[]pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, RequestedAddress: addr(right), AcceptsOtherServer: true}}},
		{"by a relay", message(dhcpv4.MessageTypeDiscover, rom, giaddr("203.0.113.9"), info("5:0xc00002fe")), "203.0.113.9:67",
			[]pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, Relay: addr("203.0.113.9"), Link: addr("192.0.2.254")}}},
		{"declines", message(dhcpv4.MessageTypeDecline, rom, serverID(ours), requested(right)), "0.0.0.0:68",
			[]pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, DeclinedAddress: addr(right)}}},
		{"declines behind a relay", message(dhcpv4.MessageTypeDecline, rom, serverID(ours), requested(right), giaddr("192.0.2.254")), "192.0.2.254:67",
			[]pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, Relay: addr("192.0.2.254"), Link: addr("192.0.2.254"), DeclinedAddress: addr(right)}}},
		{"looks from an address of the segment", message(dhcpv4.MessageTypeDiscover, rom), "192.0.2.17:68", []pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine}}},
		{"looks, from afar", message(dhcpv4.MessageTypeDiscover, rom), "203.0.113.9:40000", nil},
		{"takes ours, from afar", message(dhcpv4.MessageTypeRequest, rom, serverID(ours), requested(right)), "203.0.113.9:40000", nil},
		{"takes another's, from afar", message(dhcpv4.MessageTypeRequest, rom, serverID(theirs), requested(right)), "203.0.113.9:40000", nil},
		{"the agent, from afar", message(dhcpv4.MessageTypeDiscover, class("IngotAgent")), "203.0.113.9:40000", nil},
		{"the agent", message(dhcpv4.MessageTypeDiscover, class("IngotAgent")), "0.0.0.0:68", []pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, Agent: true}}},
		{"by a relay's uplink", message(dhcpv4.MessageTypeDiscover, rom, giaddr("192.0.2.254")), "203.0.113.9:67",
			[]pxe.UnknownClient{{MAC: nic, LocalSubnets: here, Server: mine, Relay: addr("192.0.2.254"), Link: addr("192.0.2.254")}}},
		{"declines from afar", message(dhcpv4.MessageTypeDecline, rom, serverID(ours), requested(right)), "203.0.113.9:68", nil},
		{"a system looks for an address", message(dhcpv4.MessageTypeDiscover), "0.0.0.0:68", nil},
		{"firmware gives it back", message(dhcpv4.MessageTypeRelease, rom, ciaddr(right)), "192.0.2.17:68", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := &lodging{}
			q := Query{Packet: tc.in.ToBytes(), From: netip.MustParseAddrPort(tc.from), Link: Link{Subnets: here}}
			if a, err := Reply(testIdentity, dir, q); err != nil || a.Packet != nil {
				t.Errorf("answered %v, %v", a.To, err)
			}
			if diff := cmp.Diff(tc.want, dir.asked, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// If the socket does not report interfaces, no client counts as outside of the segment.
func TestUnknownClientsWithoutInterface(t *testing.T) {
	dir := &lodging{}
	in := message(dhcpv4.MessageTypeDiscover, class("PXEClient:Arch:00007:UNDI:003016"))
	if _, err := Reply(testIdentity, dir, Query{Packet: in.ToBytes(), From: netip.MustParseAddrPort("203.0.113.9:68")}); err != nil || len(dir.asked) != 1 {
		t.Errorf("the directory was asked %d times: %v", len(dir.asked), err)
	}
}
