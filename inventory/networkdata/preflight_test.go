// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// SurplusGatewaysIn lists exactly the gateways that Resolve refuses.
func TestSurplusMatchesResolve(t *testing.T) {
	known := map[string]infrav1.IngotNetworkSpec{
		"storage": {Subnet: "10.30.0.0/16", Gateway: "10.30.0.1", StaticLeases: []infrav1.StaticLease{{MAC: portA, IP: "10.30.7.1"}}},
		"backup": {Subnet: "10.40.0.0/16", Gateway: "10.40.0.1",
			StaticLeases: []infrav1.StaticLease{{MAC: portA, IP: "10.40.7.1"}, {MAC: portB, IP: "10.40.7.2"}}},
		"quiet": {Subnet: "10.50.0.0/16", StaticLeases: []infrav1.StaticLease{{MAC: portB, IP: "10.50.7.2"}}},
	}
	from := sources()
	from.Networks = known
	ignored := func(network string) infrav1.LinkAddress {
		out := reservation(network)
		out.Gateway = infrav1.GatewayIgnore
		return out
	}
	insisted := reservation("storage")
	insisted.Gateway = infrav1.GatewayDefaultRoute
	routed := func(config infrav1.LinkConfig, to, via string, metric *int32) infrav1.LinkConfig {
		config.Routes = []infrav1.LinkRoute{{To: to, Via: via, Metric: metric}}
		return config
	}
	literal := addressed(static("192.0.2.15/24"))
	for name, tc := range map[string]struct {
		first, second infrav1.LinkConfig
		// want are the fields, what comes with them, and what is there beside.
		want []string
	}{
		"one":                   {addressed(reservation("storage")), literal, nil},
		"two":                   {addressed(reservation("storage")), addressed(reservation("backup")), []string{"net.ethernets[1].addresses[0] 10.40.0.1, the gateway of IngotNetwork storage"}},
		"two of one link":       {addressed(reservation("storage"), reservation("backup")), literal, []string{"net.ethernets[0].addresses[1] 10.40.0.1, the gateway of IngotNetwork storage"}},
		"the first ignored":     {addressed(ignored("storage")), addressed(reservation("backup")), nil},
		"the second ignored":    {addressed(reservation("storage")), addressed(ignored("backup")), nil},
		"one without a gateway": {addressed(reservation("storage")), addressed(reservation("quiet")), nil},
		"a route before it": {routed(literal, "0.0.0.0/0", "192.0.2.1", nil), addressed(reservation("backup")),
			[]string{"net.ethernets[1].addresses[0] 10.40.0.1, a route of uplink0"}},
		"a route after it": {addressed(reservation("storage")), routed(literal, "0.0.0.0/0", "192.0.2.1", nil),
			[]string{"net.ethernets[0].addresses[0] 10.30.0.1, a route of uplink1"}},
		"a route of its own link": {routed(addressed(reservation("storage")), "0.0.0.0/0", "10.30.0.9", nil), literal, nil},
		"a route of its own link, and both asked for": {routed(addressed(insisted), "0.0.0.0/0", "10.30.0.9", nil), literal,
			[]string{"net.ethernets[0].addresses[0] 10.30.0.1, a route of uplink0"}},
		"a route of its own link, and a gateway of another": {routed(addressed(reservation("storage")), "0.0.0.0/0", "10.30.0.9", nil), addressed(reservation("backup")),
			[]string{"net.ethernets[1].addresses[0] 10.40.0.1, a route of uplink0"}},
		"a metric of its own link, and a gateway of another": {routed(addressed(reservation("storage")), "0.0.0.0/0", "10.30.0.9", new(int32(7))),
			addressed(reservation("backup")), nil},
		"a route with a metric": {addressed(reservation("storage")), routed(literal, "0.0.0.0/0", "192.0.2.1", new(int32(7))), nil},
		"a route elsewhere":     {addressed(reservation("storage")), routed(literal, "198.51.100.0/24", "192.0.2.1", nil), nil},
		"a route of IPv6": {addressed(reservation("storage")), routed(addressed(static("2001:db8::15/64")), "::/0", "2001:db8::1", nil),
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(1), tc.first), ethernet("uplink1", port(2), tc.second)}}
			if errs := Check(field.NewPath("net"), data); len(errs) > 0 {
				t.Fatalf("is refused anyway: %v", errs)
			}
			var got []string
			for _, s := range SurplusGatewaysIn(field.NewPath("net"), data, known) {
				got = append(got, s.Path.String()+" "+s.Router+", "+s.Other)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
			_, err := Resolve(data, from)
			if refused := err != nil && strings.Contains(err.Error(), "two routes to 0.0.0.0/0"); refused != (len(tc.want) > 0) || err != nil && !refused {
				t.Errorf("Resolve: %v", err)
			}
		})
	}
	if got := SurplusGatewaysIn(nil, nil, known); got != nil {
		t.Errorf("%v of nothing", got)
	}
}
