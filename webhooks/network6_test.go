// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"testing"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// dual returns a network with IPv6. Without a range its mode is Stateless.
func dual(name, subnet, start, end string) *v1beta2.IngotNetwork {
	n := network(name, "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "")
	n.Spec.IPv6 = &v1beta2.NetworkIPv6{Mode: v1beta2.DHCPv6ModeStateful, Subnet: subnet, Range: v1beta2.IPv6Range{Start: start, End: end}}
	if start == "" {
		n.Spec.IPv6.Mode = v1beta2.DHCPv6ModeStateless
	}
	return n
}

// advertised returns a network of mode Stateless with router advertisements.
func advertised(subnet string) *v1beta2.IngotNetwork {
	n := dual("n", subnet, "", "")
	n.Spec.IPv6.Mode, n.Spec.IPv6.RouterAdvertisements = v1beta2.DHCPv6ModeStateless, &v1beta2.RouterAdvertisements{}
	return n
}

func TestNetworkIPv6(t *testing.T) {
	exists := dual("rack-a", "2001:db8:0:1::/64", "2001:db8:0:1::10", "2001:db8:0:1::99")
	exists.Spec.Subnet, exists.Spec.Range = "10.10.0.0/24", v1beta2.AddressRange{Start: "10.10.0.10", End: "10.10.0.99"}
	for _, tc := range []struct {
		name      string
		network   *v1beta2.IngotNetwork
		wantField string
	}{
		{"a segment that is advertised", advertised("2001:db8:0:2::/64"), ""},
		{"a part of one", advertised("2001:db8:0:2::/80"), ""},
		{"more than a segment", advertised("2001:db8::/48"), "spec.ipv6.routerAdvertisements"},
		{"valid", dual("n", "2001:db8:0:2::/64", "2001:db8:0:2::10", "2001:db8:0:2::99"), ""},
		{"numbers, not text, are compared", dual("n", "2001:db8:0:2::/64", "2001:db8:0:2::9", "2001:db8:0:2::10"), ""},
		{"stateless", dual("n", "2001:db8:0:2::/64", "", ""), ""},
		{"stateless on another's subnet", dual("n", "2001:db8:0:1::/64", "", ""), ""},
		{"backwards", dual("n", "2001:db8:0:2::/64", "2001:db8:0:2::99", "2001:db8:0:2::10"), "spec.ipv6.range.start"},
		{"the routers' address", dual("n", "2001:db8:0:2::/64", "2001:db8:0:2::", "2001:db8:0:2::10"), "spec.ipv6.range.start"},
		{"inside another", dual("n", "2001:db8:0:1:1::/80", "2001:db8:0:1:1::1", "2001:db8:0:1:1::2"), "spec.ipv6.subnet"},
		{"no addresses", dual("n", "2001:db8:0:2::/64", "x", "y"), "spec.ipv6.range"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newNetworkValidator(t, exists.DeepCopy())
			_, err := v.ValidateCreate(t.Context(), tc.network)
			checkRefusal(t, err, tc.wantField)
			before := tc.network.DeepCopy()
			before.Spec.IPv6 = nil
			_, err = v.ValidateUpdate(t.Context(), before, tc.network)
			checkRefusal(t, err, tc.wantField)
		})
	}
}
