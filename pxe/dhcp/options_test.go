// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// bulky is a host with more options than a small message can hold.
func bulky() pxe.Host {
	h := testHost(pxe.Agent)
	h.Routes, h.Search = nil, nil
	for i := range 16 {
		h.Routes = append(h.Routes, pxe.Route{Destination: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i)), Gateway: h.Gateway})
	}
	for i := range 6 {
		h.Search = append(h.Search, fmt.Sprintf("%s%d.example", strings.Repeat("x", 40), i))
	}
	h.Domain, h.Hostname = strings.Repeat("d", 60)+".example", strings.Repeat("h", 60)
	h.Plan.Agent.Token = agentapi.Sensitive(strings.Repeat("t", 300))
	return h
}

// No message exceeds the client's limit, boot options are always included, and a client without
// a limit gets all options.
func TestMessagesFit(t *testing.T) {
	everything := []byte{1, 3, 6, 12, 15, 26, 28, 42, 119, 121, 224, 225, 226, 227}
	for _, tc := range []struct {
		name  string
		limit int // of option 57; 0 means absent
		who   dhcpv4.Modifier
		bound int
		has   []uint8
		lacks []uint8
	}{
		{"iPXE that does not say", 0, option(77, []byte("iPXE")...), 548, []uint8{1, 3, 6, 51, 53, 54, 67, 121}, []uint8{119}},
		{"iPXE that can take little", 300, option(77, []byte("iPXE")...), 548, []uint8{1, 3, 67}, []uint8{119}},
		{"iPXE", 1472, option(77, []byte("iPXE")...), 1444, []uint8{1, 3, 6, 12, 15, 26, 28, 42, 66, 67, 119, 121}, nil},
		{"an agent that can take much", 1500, class("IngotAgent"), 1472, []uint8{224, 225, 226, 227, 119, 121}, nil},
		{"one that says more than a frame holds", 65535, class("IngotAgent"), 1472, []uint8{226}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changes := []dhcpv4.Modifier{tc.who, option(55, everything...)}
			if tc.limit > 0 {
				changes = append(changes, option(57, byte(tc.limit>>8), byte(tc.limit)))
			}
			a, err := Reply(testIdentity, directory(bulky()), Query{Packet: message(dhcpv4.MessageTypeDiscover, changes...).ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Packet) > tc.bound {
				t.Errorf("%d bytes, at most %d can be taken", len(a.Packet), tc.bound)
			}
			r, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatal(err)
			}
			if got := size(r.Options); got != len(a.Packet) {
				t.Errorf("counted %d bytes, written are %d", got, len(a.Packet))
			}
			for _, code := range tc.has {
				if !r.Options.Has(dhcpv4.GenericOptionCode(code)) {
					t.Errorf("option %d is missing", code)
				}
			}
			for _, code := range tc.lacks {
				if r.Options.Has(dhcpv4.GenericOptionCode(code)) {
					t.Errorf("option %d is in", code)
				}
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	route := func(to, by string) pxe.Route {
		return pxe.Route{Destination: netip.MustParsePrefix(to), Gateway: netip.MustParseAddr(by)}
	}
	for _, tc := range []struct {
		name    string
		gateway string
		routes  []pxe.Route
		want    string
	}{
		{"RFC 3442's examples", "", []pxe.Route{route("10.0.0.0/8", "192.0.2.1"), route("10.229.0.128/25", "192.0.2.1"), route("10.198.122.47/32", "192.0.2.1")},
			"080ac0000201" + "190ae50080c0000201" + "200ac67a2fc0000201"},
		{"the default route comes along", "192.0.2.254", []pxe.Route{route("10.17.0.0/16", "192.0.2.1")}, "00c00002fe" + "100a11c0000201"},
		{"host bits do not count", "", []pxe.Route{route("10.17.9.9/12", "192.0.2.1")}, "0c0a10c0000201"},
		{"what is not IPv4 is left out", "", []pxe.Route{route("2001:db8::/32", "192.0.2.1"), route("10.0.0.0/8", "2001:db8::1")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pxe.Host{Routes: tc.routes}
			if tc.gateway != "" {
				h.Gateway = netip.MustParseAddr(tc.gateway)
			}
			if got := hex.EncodeToString(routes(h)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSearchList(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []string
		want string
	}{
		{"two", []string{"a.bc", "d"}, "\x01a\x02bc\x00\x01d\x00"},
		{"absolute", []string{"a.bc."}, "\x01a\x02bc\x00"},
		{"what is no name is left out", []string{"", "a..b", strings.Repeat("x", 64), strings.Repeat("x.", 130), "ok"}, "\x02ok\x00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(searchList(tc.in)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The expected packet was written by hand, and `tcpdump -v` confirmed its checksums.
func TestDatagram(t *testing.T) {
	from, to := netip.MustParseAddrPort("192.0.2.1:67"), netip.MustParseAddrPort("192.0.2.17:68")
	for _, payload := range []string{"", "a", "ab", strings.Repeat("\xff", 301)} {
		p := datagram([]byte(payload), from, to)
		if s := sum(0, p[:ipHeader]); s != 0xffff {
			t.Errorf("%d bytes: the header's sum is %04x", len(payload), s)
		}
		pseudo := append(append([]byte{}, p[12:20]...), 0, protoUDP, p[24], p[25])
		if s := sum(uint32(sum(0, pseudo)), p[ipHeader:]); s != 0xffff {
			t.Errorf("%d bytes: the datagram's sum is %04x", len(payload), s)
		}
		if got := payloadOf(p); string(got) != payload {
			t.Errorf("payload %q, want %q", got, payload)
		}
	}
	want := "45000020" + "00000000" + "4011" + "f6ba" + "c0000201" + "c0000211" + "00430044" + "000c" + "7938" + "00010203"
	if got := hex.EncodeToString(datagram([]byte{0, 1, 2, 3}, from, to)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add(datagram([]byte("x"), netip.MustParseAddrPort("192.0.2.1:67"), netip.MustParseAddrPort("192.0.2.17:68")))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if p := payloadOf(packet); len(p) > len(packet) {
			t.Errorf("%d bytes out of %d", len(p), len(packet))
		}
	})
}
