// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe"
)

func ipv6(mode infrav1.DHCPv6Mode) *infrav1.NetworkIPv6 {
	return &infrav1.NetworkIPv6{Mode: mode, Subnet: "2001:db8::/64", DNSServers: []string{"2001:db8::53"}, Relays: []string{"2001:db8:1::1"}}
}

func TestLookupIPv6(t *testing.T) {
	subnet, relays := netip.MustParsePrefix("2001:db8::/64"), []netip.Addr{netip.MustParseAddr("2001:db8:1::1")}
	recorded := func(name, mac, ip string) *infrav1.RecordedAddress {
		return &infrav1.RecordedAddress{NetworkName: name, MAC: mac, IP: ip}
	}
	for name, tc := range map[string]struct {
		ipv6     *infrav1.NetworkIPv6
		recorded *infrav1.RecordedAddress
		want     pxe.IPv6
	}{
		"none":      {recorded: recorded("net", mac, "2001:db8::7")},
		"stateless": {ipv6: ipv6(infrav1.DHCPv6ModeStateless), want: pxe.IPv6{Mode: pxe.Stateless, Subnet: subnet, Relays: relays}},
		"recorded": {ipv6(infrav1.DHCPv6ModeStateful), recorded("net", mac, "2001:db8::7"),
			pxe.IPv6{Mode: pxe.Stateful, Subnet: subnet, Relays: relays, Address: netip.MustParseAddr("2001:db8::7")}},
		"not recorded":          {ipv6: ipv6(infrav1.DHCPv6ModeStateful), want: pxe.IPv6{Mode: pxe.Stateful, Subnet: subnet, Relays: relays}},
		"of another NIC":        {ipv6(infrav1.DHCPv6ModeStateful), recorded("net", "52:54:00:00:00:09", "2001:db8::7"), pxe.IPv6{Mode: pxe.Stateful, Subnet: subnet, Relays: relays}},
		"of another network":    {ipv6(infrav1.DHCPv6ModeStateful), recorded("old", mac, "2001:db8::7"), pxe.IPv6{Mode: pxe.Stateful, Subnet: subnet, Relays: relays}},
		"of an old subnet":      {ipv6(infrav1.DHCPv6ModeStateful), recorded("net", mac, "2001:db8:9::7"), pxe.IPv6{Mode: pxe.Stateful, Subnet: subnet, Relays: relays}},
		"a subnet that is none": {ipv6: &infrav1.NetworkIPv6{Subnet: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, oneHost(func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
				f.Spec.IPv6Address, n.Spec.IPv6 = tc.recorded, tc.ipv6
			})...)
			got, ok := d.Lookup(parse(t, mac))
			if !ok {
				t.Fatal("the host is not known any more")
			}
			if diff := cmp.Diff(tc.want, got.IPv6, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// On an IPv6-only network a host is known by its recorded IPv6 address, or by one derived from its MAC.
func TestLookupIPv6Alone(t *testing.T) {
	recorded := &infrav1.RecordedAddress{NetworkName: "net", MAC: mac, IP: "2001:db8::7"}
	for name, tc := range map[string]struct {
		ipv6     *infrav1.NetworkIPv6
		recorded *infrav1.RecordedAddress
		known    bool
	}{
		"recorded":                   {ipv6(infrav1.DHCPv6ModeStateful), recorded, true},
		"not recorded":               {ipv6: ipv6(infrav1.DHCPv6ModeStateful)},
		"stateless":                  {ipv6: ipv6(infrav1.DHCPv6ModeStateless), known: true},
		"a subnet that is none":      {ipv6: &infrav1.NetworkIPv6{Subnet: "x"}, recorded: recorded},
		"no subnet of either family": {recorded: recorded},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, oneHost(func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
				f.Spec.Address, f.Spec.IPv6Address = nil, tc.recorded
				n.Spec.Subnet, n.Spec.Range, n.Spec.IPv6 = "", infrav1.AddressRange{}, tc.ipv6
			})...)
			got, ok := d.Lookup(parse(t, mac))
			if ok != tc.known || ok && !got.IsIPv6Only() {
				t.Errorf("known: %v, want %v; %+v", ok, tc.known, got)
			}
		})
	}
}

func TestAdvertisements(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*infrav1.IngotNetworkSpec)
		want   []pxe.Advertisement
	}{
		"not asked for": {change: func(n *infrav1.IngotNetworkSpec) { n.IPv6 = ipv6(infrav1.DHCPv6ModeStateful) }},
		"no IPv6":       {change: func(*infrav1.IngotNetworkSpec) {}},
		"more than a segment": {change: func(n *infrav1.IngotNetworkSpec) {
			n.IPv6 = ipv6(infrav1.DHCPv6ModeStateless)
			n.IPv6.Subnet, n.IPv6.RouterAdvertisements = "2001:db8::/63", &infrav1.RouterAdvertisements{}
		}},
		"asked for": {change: func(n *infrav1.IngotNetworkSpec) {
			n.IPv6, n.MTU, n.SearchDomains = ipv6(infrav1.DHCPv6ModeStateless), ptr.To[int32](9000), []string{"example"}
			n.IPv6.RouterAdvertisements = &infrav1.RouterAdvertisements{DefaultRouterSeconds: ptr.To[int32](1800)}
		}, want: []pxe.Advertisement{{Network: "net", Prefix: netip.MustParsePrefix("2001:db8::/64"), Mode: pxe.Stateless, RouterLifetime: 30 * time.Minute,
			DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, Search: []string{"example"}, MTU: 9000}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, oneHost(func(_ *infrav1.IngotHost, _ *infrav1.IngotHardware, n *infrav1.IngotNetwork) { tc.change(&n.Spec) })...)
			if diff := cmp.Diff(tc.want, d.Advertisements(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
