// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

func TestSpeaks(t *testing.T) {
	subnet, address := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.17/24")
	mac, other := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}
	ipv6 := pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("2001:db8::/64"), Address: netip.MustParseAddr("2001:db8::17")}
	stateless := pxe.IPv6{Mode: pxe.Stateless, Subnet: ipv6.Subnet}
	const made, othersMade = "2001:db8::5054:ff:fe00:1", "2001:db8::5054:ff:fe00:2"
	for name, tc := range map[string]struct {
		host  pxe.Host
		yes   []string
		no    []string
		shown net.HardwareAddr
	}{
		"reserve": {pxe.Host{Subnet: subnet, Address: address}, []string{"192.0.2.17"},
			[]string{"192.0.2.18", "198.51.100.17", "2001:db8::17", made, "::ffff:192.0.2.17"}, mac},
		"reserve, by its address alone": {pxe.Host{Address: address}, []string{"192.0.2.17"}, []string{"192.0.2.18"}, nil},
		"nothing is recorded":           {pxe.Host{Subnet: subnet}, nil, []string{"192.0.2.17"}, mac},
		"proxy":                         {pxe.Host{Subnet: subnet, Mode: pxe.Proxy}, []string{"192.0.2.17", "192.0.2.18"}, []string{"198.51.100.17", "2001:db8::17"}, mac},
		"proxy, and DHCP has shown another machine there": {pxe.Host{Subnet: subnet, Mode: pxe.Proxy}, nil, []string{"192.0.2.17"}, other},
		"proxy, and DHCP has shown nothing there":         {pxe.Host{Subnet: subnet, Mode: pxe.Proxy}, nil, []string{"192.0.2.17"}, nil},
		"both":                  {pxe.Host{Subnet: subnet, Address: address, IPv6: ipv6}, []string{"192.0.2.17", "2001:db8::17", made}, []string{"192.0.2.18", "2001:db8:9::17", "2001:db8::18", othersMade}, nil},
		"IPv6 alone":            {pxe.Host{IPv6: ipv6}, []string{"2001:db8::17", made}, []string{"192.0.2.17", "2001:db8:9::17", "2001:db8::18"}, mac},
		"IPv6 alone, stateless": {pxe.Host{IPv6: stateless}, []string{made}, []string{othersMade, "2001:db8::17", "2001:db8:9::5054:ff:fe00:1"}, mac},
		"nothing is known":      {pxe.Host{}, []string{"192.0.2.17", "2001:db8::17"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.host.MAC = mac
			for _, from := range tc.yes {
				if !tc.host.MayUseAddress(netip.MustParseAddr(from), tc.shown) {
					t.Errorf("not from %s", from)
				}
			}
			for _, from := range append(tc.no, "") {
				address, _ := netip.ParseAddr(from)
				if (from != "" || name != "nothing is known") && tc.host.MayUseAddress(address, tc.shown) {
					t.Errorf("from %q", from)
				}
			}
		})
	}
}

// An address belongs to the NIC of the latest exchange, for BindingLifetime.
func TestAddressBindings(t *testing.T) {
	now := time.Unix(0, 0)
	b := &pxe.AddressBindings{Now: func() time.Time { return now }}
	first, second := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	expect := func(address netip.Addr, want net.HardwareAddr) {
		t.Helper()
		if got := b.At(address); got.String() != want.String() {
			t.Errorf("at %s: %s, want %s", address, got, want)
		}
	}
	expect(one, nil)
	b.Bind(one, first)
	b.Bind(two, second)
	b.Bind(netip.Addr{}, first)
	b.Bind(netip.MustParseAddr("192.0.2.3"), net.HardwareAddr{1})
	expect(one, first)
	expect(netip.MustParseAddr("192.0.2.3"), nil)
	b.Bind(one, second)
	expect(one, second)
	now = now.Add(pxe.BindingLifetime)
	expect(one, nil)
	var none *pxe.AddressBindings
	none.Bind(one, first)
	if got := none.At(one); got != nil {
		t.Errorf("a nil pointer knows %s", got)
	}
}
