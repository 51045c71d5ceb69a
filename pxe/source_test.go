// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe_test

import (
	"net/netip"
	"testing"

	"github.com/ingot-metal/ingot/pxe"
)

func TestSpeaks(t *testing.T) {
	subnet, address := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.17/24")
	ipv6 := pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("2001:db8::/64")}
	for name, tc := range map[string]struct {
		host pxe.Host
		yes  []string
		no   []string
	}{
		"reserve": {pxe.Host{Subnet: subnet, Address: address}, []string{"192.0.2.17"},
			[]string{"192.0.2.18", "198.51.100.17", "2001:db8::17", "::ffff:192.0.2.17"}},
		"reserve, by its address alone": {pxe.Host{Address: address}, []string{"192.0.2.17"}, []string{"192.0.2.18"}},
		"nothing is recorded":           {pxe.Host{Subnet: subnet}, nil, []string{"192.0.2.17"}},
		"proxy":                         {pxe.Host{Subnet: subnet, Mode: pxe.Proxy}, []string{"192.0.2.17", "192.0.2.18"}, []string{"198.51.100.17", "2001:db8::17"}},
		"both":                          {pxe.Host{Subnet: subnet, Address: address, IPv6: ipv6}, []string{"192.0.2.17", "2001:db8::17", "2001:db8::18"}, []string{"192.0.2.18", "2001:db8:9::17"}},
		"IPv6 alone":                    {pxe.Host{IPv6: ipv6}, []string{"2001:db8::17"}, []string{"192.0.2.17", "2001:db8:9::17"}},
		"nothing is known":              {pxe.Host{}, []string{"192.0.2.17", "2001:db8::17"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range tc.yes {
				if !tc.host.Speaks(netip.MustParseAddr(from)) {
					t.Errorf("not from %s", from)
				}
			}
			for _, from := range append(tc.no, "") {
				address, _ := netip.ParseAddr(from)
				if (from != "" || name != "nothing is known") && tc.host.Speaks(address) {
					t.Errorf("from %q", from)
				}
			}
		})
	}
}
