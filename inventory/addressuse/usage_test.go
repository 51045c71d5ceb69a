// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestUsage(t *testing.T) {
	spec := infrav1.IngotNetworkSpec{Subnet: "10.10.0.0/24", Gateway: "10.10.0.1", DNSServers: []string{"10.10.0.12"},
		Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.19"}, StaticLeases: []infrav1.StaticLease{{IP: "10.10.0.13"}, {IP: "10.10.0.30"}}}
	with := func(change func(*infrav1.IngotNetworkSpec)) infrav1.IngotNetworkSpec {
		out := *spec.DeepCopy()
		change(&out)
		return out
	}
	ipv6 := func(mode infrav1.DHCPv6Mode, start, end string) infrav1.IngotNetworkSpec {
		return infrav1.IngotNetworkSpec{IPv6: &infrav1.NetworkIPv6{Mode: mode, Subnet: "2001:db8::/64",
			Range: infrav1.IPv6Range{Start: start, End: end}, DNSServers: []string{"2001:db8::11"}}}
	}
	of := func(total, used int64) *infrav1.AddressUsage {
		return &infrav1.AddressUsage{Total: new(total), Used: new(used), Free: new(total - used)}
	}
	taken := map[netip.Addr]bool{}
	for _, address := range []string{"10.10.0.10", "10.10.0.12", "10.10.0.99", "192.0.2.1", "2001:db8::10", "2001:db8::ff"} {
		taken[netip.MustParseAddr(address)] = true
	}
	for name, tc := range map[string]struct {
		got, want *infrav1.AddressUsage
	}{
		"a host, a server with a host, and a static lease": {UsageIPv4(spec, taken), of(10, 3)},
		"nothing is taken":   {UsageIPv4(with(func(s *infrav1.IngotNetworkSpec) { s.DNSServers, s.StaticLeases = nil, nil }), nil), of(10, 0)},
		"one address":        {UsageIPv4(with(func(s *infrav1.IngotNetworkSpec) { s.Range.End = s.Range.Start }), taken), of(1, 1)},
		"a pool":             {UsageIPv4(with(func(s *infrav1.IngotNetworkSpec) { s.AddressPoolRef = &infrav1.AddressPoolReference{} }), taken), &infrav1.AddressUsage{Used: new(int64(3))}},
		"another server":     {UsageIPv4(with(func(s *infrav1.IngotNetworkSpec) { s.Mode = infrav1.DHCPModeProxy }), taken), nil},
		"IPv6 only":          {UsageIPv4(ipv6(infrav1.DHCPv6ModeStateful, "2001:db8::10", "2001:db8::1f"), taken), nil},
		"an invalid range":   {UsageIPv4(with(func(s *infrav1.IngotNetworkSpec) { s.Range.End = "10.10.0.1" }), taken), nil},
		"IPv6":               {UsageIPv6(ipv6(infrav1.DHCPv6ModeStateful, "2001:db8::10", "2001:db8::1f"), taken), of(16, 2)},
		"IPv6, stateless":    {UsageIPv6(ipv6(infrav1.DHCPv6ModeStateless, "2001:db8::10", "2001:db8::1f"), taken), nil},
		"IPv6, a large one":  {UsageIPv6(ipv6(infrav1.DHCPv6ModeStateful, "2001:db8::", "2001:db8::ffff:ffff:ffff:ffff"), taken), of(maxTotal, 3)},
		"IPv6, none at all":  {UsageIPv6(spec, taken), nil},
		"IPv6, not a prefix": {UsageIPv6(ipv6(infrav1.DHCPv6ModeStateful, "2001:db8::", "2001:db8:1::"), nil), of(maxTotal, 1)},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s: usage (-want +got):\n%s", name, diff)
		}
	}
}
