// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Endpoints are compared as addresses, in any notation.
func TestEndpointOf(t *testing.T) {
	for host, want := range map[string]string{
		"10.10.0.5": "10.10.0.5", "2001:DB8:0::0005": "2001:db8::5", "[2001:db8::5]": "2001:db8::5", "::ffff:10.10.0.5": "10.10.0.5",
		"api.example.com": "invalid IP", "": "invalid IP", "10.10.0.5/24": "invalid IP",
	} {
		cluster := &infrav1.IngotCluster{}
		cluster.Spec.ControlPlaneEndpoint.Host = host
		if got := EndpointOf(cluster).String(); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
}

func TestEndpoints(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "dc1", Name: name} }
	vip, shared := netip.MustParseAddr("10.10.0.5"), netip.MustParseAddr("10.10.0.6")
	endpoints := Endpoints{}
	for range 2 {
		endpoints.Add(vip, key("a"))
		endpoints.Add(shared, key("b"))
		endpoints.Add(shared, key("c"))
		endpoints.Add(netip.Addr{}, key("d"))
	}
	comparable := cmpopts.EquateComparable(netip.Addr{})
	if diff := cmp.Diff(Endpoints{vip: {key("a")}, shared: {key("b"), key("c")}}, endpoints, comparable); diff != "" {
		t.Error(diff)
	}
	network := infrav1.IngotNetworkSpec{StaticLeases: []infrav1.StaticLease{{MAC: "m1", IP: "10.10.0.5"}, {MAC: "m2", IP: "10.10.0.6"}, {MAC: "m1", IP: "none"}}}
	for name, tc := range map[string]struct {
		macs []string
		want map[netip.Addr]bool
	}{
		"nobody's":           {nil, map[netip.Addr]bool{vip: true, shared: true}},
		"reserved":           {[]string{"m1"}, map[netip.Addr]bool{shared: true}},
		"reserved, of a few": {[]string{"m0", "m2"}, map[netip.Addr]bool{vip: true}},
	} {
		if diff := cmp.Diff(tc.want, endpoints.Kept(network, tc.macs...), comparable); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(endpoints) != 2 {
		t.Errorf("%v: what is kept changes what is known", endpoints)
	}
}
