// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// testDualStackAddresses: a host gets all addresses of its network before it is powered on. Without
// a free IPv6 address it stays off, and its condition shows why.
func testDualStackAddresses(t *testing.T, on *testEnv) {
	ipv4 := infrav1.IngotNetworkSpec{Subnet: "198.51.100.0/24", Range: infrav1.AddressRange{Start: "198.51.100.20", End: "198.51.100.20"}}
	proxy := infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeProxy, Subnet: "198.51.100.0/24"}
	stateful := &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: infrav1.IPv6Range{Start: "2001:db8::20", End: "2001:db8::20"}}
	full := stateful.DeepCopy()
	full.DNSServers = []string{"2001:db8::20"}
	for name, tc := range map[string]struct {
		spec         infrav1.IngotNetworkSpec
		ipv6         *infrav1.NetworkIPv6
		want4, want6 string
		problem      bool
	}{
		"both":      {spec: ipv4, ipv6: stateful, want4: "198.51.100.20", want6: "2001:db8::20"},
		"proxy":     {spec: proxy, ipv6: stateful, want6: "2001:db8::20"},
		"alone":     {ipv6: stateful, want6: "2001:db8::20"},
		"stateless": {spec: ipv4, ipv6: &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateless, Subnet: "2001:db8::/64"}, want4: "198.51.100.20"},
		"full":      {spec: ipv4, ipv6: full, want4: "198.51.100.20", problem: true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			network := y.ns + "-dual"
			tc.spec.IPv6 = tc.ipv6
			y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: network}, Spec: tc.spec})
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = network })
			if tc.problem {
				for range 5 {
					y.step("h")
				}
				if call := y.bmc.took(); call != "" {
					t.Errorf("switched without an address: %s", call)
				}
				y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonAddressesExhausted)
			} else {
				y.inspect("h")
			}
			facts := &infrav1.IngotHardware{}
			must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "h"}, facts))
			if got4, got6 := ipOf(facts.Spec.Address), ipOf(facts.Spec.IPv6Address); got4 != tc.want4 || got6 != tc.want6 {
				t.Errorf("recorded %q and %q, want %q and %q", got4, got6, tc.want4, tc.want6)
			}
			y.atRest("h")
		})
	}
}

func ipOf(recorded *infrav1.RecordedAddress) string {
	if recorded == nil {
		return ""
	}
	return recorded.IP
}
