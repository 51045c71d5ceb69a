// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// info returns option 82 with sub-options, each as "code:text" or "code:0xhex".
func info(parts ...string) dhcpv4.Modifier {
	var raw []byte
	for _, part := range parts {
		code, text, _ := strings.Cut(part, ":")
		value := []byte(text)
		if digits, ok := strings.CutPrefix(text, "0x"); ok {
			value, _ = hex.DecodeString(digits)
		}
		number := byte(0)
		for _, c := range code {
			number = number*10 + byte(c-'0')
		}
		raw = append(append(raw, number, byte(len(value))), value...)
	}
	return option(82, raw...)
}

// The answer goes to giaddr and repeats option 82. A relay of another network gets none.
func TestRelays(t *testing.T) {
	const inside, outside, loopback = "192.0.2.254", "198.51.100.1", "10.255.0.7"
	for _, tc := range []struct {
		name string
		in   []dhcpv4.Modifier
		to   string // "" means silence
		port string
	}{
		{"in the subnet", []dhcpv4.Modifier{giaddr(inside)}, inside + ":67", "relay 192.0.2.254"},
		{"of another network", []dhcpv4.Modifier{giaddr(outside)}, "", "relay 198.51.100.1"},
		{"named by the network", []dhcpv4.Modifier{giaddr(loopback)}, loopback + ":67", "relay 10.255.0.7"},
		{"link selection", []dhcpv4.Modifier{giaddr(loopback), info("5:0xc00002fe")}, loopback + ":67", "relay 10.255.0.7"},
		{"link selection by another relay", []dhcpv4.Modifier{giaddr(outside), info("5:0xc00002fe")}, "", "relay 198.51.100.1"},
		{"link selection of another network by a relay of several", []dhcpv4.Modifier{giaddr(loopback), info("5:0xc6336401")}, "", "relay 10.255.0.7"},
		{"a server identifier by another relay", []dhcpv4.Modifier{giaddr(outside), info("5:0xc00002fe", "11:0xc00002fe")}, "", "relay 198.51.100.1"},
		{"link selection of another network", []dhcpv4.Modifier{giaddr(inside), info("5:0xc6336401")}, "", "relay 192.0.2.254"},
		{"port and switch", []dhcpv4.Modifier{giaddr(inside), info("1:Ethernet1/7", "2:leaf-3")}, inside + ":67",
			"relay 192.0.2.254, circuit Ethernet1/7, remote leaf-3"},
		{"port and switch in binary", []dhcpv4.Modifier{giaddr(inside), info("1:0x00040064", "2:0x0006525400aabbcc")}, inside + ":67",
			"relay 192.0.2.254, circuit 0x00040064, remote 0x0006525400aabbcc"},
		{"a switch that snoops", []dhcpv4.Modifier{info("1:Ethernet1/7", "5:0xc6336401")}, "192.0.2.17:68", "circuit Ethernet1/7"},
		{"an option that breaks off", []dhcpv4.Modifier{giaddr(inside), option(82, 1, 200, 'x')}, inside + ":67", "relay 192.0.2.254"},
		{"too long to tell", []dhcpv4.Modifier{giaddr(inside), info("1:" + strings.Repeat("x", 200))}, inside + ":67",
			"relay 192.0.2.254, circuit " + strings.Repeat("x", maxLabel)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := testHost(pxe.Agent)
			host.Relays = []netip.Addr{netip.MustParseAddr(loopback)}
			in := message(dhcpv4.MessageTypeDiscover, tc.in...)
			a, err := Reply(testIdentity, directory(host), Query{Packet: in.ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Event.Port.String(); got != tc.port {
				t.Errorf("port %q, want %q", got, tc.port)
			}
			if tc.to == "" {
				if a.Packet != nil || a.Event.Stage != pxe.StageWrongNetwork {
					t.Errorf("answered %s, event %s", a.To, a.Event.Stage)
				}
				return
			}
			if a.To.String() != tc.to {
				t.Fatalf("sent to %s, want %s (%s)", a.To, tc.to, a.Event.Detail)
			}
			r, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatal(err)
			}
			want := in.Options.Get(dhcpv4.OptionRelayAgentInformation)
			if got := r.Options.Get(dhcpv4.OptionRelayAgentInformation); string(got) != string(want) {
				t.Errorf("option 82 is %x, came as %x", got, want)
			}
			if want != nil && !strings.HasSuffix(strings.TrimRight(string(a.Packet), "\x00"), string(want)+"\xff") {
				t.Error("option 82 is not the last (RFC 3046 section 2.1)")
			}
			if r.GatewayIPAddr.String() != in.GatewayIPAddr.String() {
				t.Errorf("giaddr %s, came as %s", r.GatewayIPAddr, in.GatewayIPAddr)
			}
		})
	}
}

// A relay that overrides the server identifier (RFC 5107) appears in option 54, and requests
// with that identifier are for this server.
func TestServerIdentifierOverride(t *testing.T) {
	const relayID = "192.0.2.254"
	override := info("11:0xc00002fe")
	for _, tc := range []struct {
		name string
		in   *dhcpv4.DHCPv4
		want string
	}{
		{"discover", message(dhcpv4.MessageTypeDiscover, giaddr(relayID), override), "OFFER " + relayID},
		{"request that names the relay", message(dhcpv4.MessageTypeRequest, giaddr(relayID), override, serverID(relayID), requested(right)), "ACK " + relayID},
		{"request that names us", message(dhcpv4.MessageTypeRequest, giaddr(relayID), override, serverID(ours), requested(right)), "ACK " + relayID},
		{"request that names another", message(dhcpv4.MessageTypeRequest, giaddr(relayID), override, serverID(theirs), requested(right)), ""},
		{"not by a relay", message(dhcpv4.MessageTypeDiscover, override), "OFFER " + ours},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(pxe.LocalDisk)), Query{Packet: tc.in.ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if a.Packet != nil {
				r, err := dhcpv4.FromBytes(a.Packet)
				if err != nil {
					t.Fatal(err)
				}
				got = r.MessageType().String() + " " + r.ServerIdentifier().String()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Without a relay a request is from the wrong network only if another interface has the host's
// subnet. Renewals never are.
func TestInterfaces(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	discover := message(dhcpv4.MessageTypeDiscover)
	for _, tc := range []struct {
		name string
		link Link
		in   *dhcpv4.DHCPv4
		want pxe.Stage
	}{
		{"not known", Link{}, discover, pxe.StageOffer},
		{"its own", Link{Subnets: prefixes("192.0.2.0/24"), OtherSubnets: prefixes("198.51.100.0/24")}, discover, pxe.StageOffer},
		{"its own, with another subnet", Link{Subnets: prefixes("198.51.100.0/24", "192.0.2.0/25")}, discover, pxe.StageOffer},
		{"one without an address of its subnet", Link{Subnets: prefixes("198.51.100.0/24")}, discover, pxe.StageOffer},
		{"the wrong one", Link{Name: "eth1", Subnets: prefixes("198.51.100.0/24"), OtherSubnets: prefixes("192.0.2.0/24")}, discover, pxe.StageWrongNetwork},
		{"the wrong one, without an address", Link{OtherSubnets: prefixes("192.0.2.0/24")}, discover, pxe.StageWrongNetwork},
		{"renewal through a router", Link{Subnets: prefixes("198.51.100.0/24"), OtherSubnets: prefixes("192.0.2.0/24")},
			message(dhcpv4.MessageTypeRequest, ciaddr(right)), pxe.StageAck},
		{"release", Link{Subnets: prefixes("198.51.100.0/24"), OtherSubnets: prefixes("192.0.2.0/24")},
			message(dhcpv4.MessageTypeRelease, serverID(ours)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(pxe.Agent)), Query{Packet: tc.in.ToBytes(), Link: tc.link})
			if err != nil || a.Event.Stage != tc.want {
				t.Errorf("event %q (%s), %v, want %q", a.Event.Stage, a.Event.Detail, err, tc.want)
			}
			if a.Event.Stage == pxe.StageWrongNetwork && a.Packet != nil {
				t.Error("answered on a network where the address is of no use")
			}
		})
	}
}
