// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestOf(t *testing.T) {
	network := infrav1.IngotNetworkSpec{Subnet: "10.10.0.0/24", Gateway: "10.10.0.1", DNSServers: []string{"10.10.0.2"}, NTPServers: []string{"10.10.0.3"},
		Relays: []string{"10.10.0.4", "10.255.0.7"}, Routes: []infrav1.NetworkRoute{{Destination: "10.20.0.0/16", Gateway: "10.10.0.5"}},
		Range:        infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.19"},
		Discover:     &infrav1.NetworkDiscovery{Range: infrav1.AddressRange{Start: "10.10.0.20", End: "10.10.0.29"}},
		StaticLeases: []infrav1.StaticLease{{MAC: "m1", IP: "10.10.0.15"}, {MAC: "m2", IP: "10.10.0.2"}},
		IPv6: &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: infrav1.IPv6Range{Start: "2001:db8::10", End: "2001:db8::19"},
			DNSServers: []string{"2001:db8::53"}, Relays: []string{"2001:db8::4"}}}
	for _, tc := range []struct {
		address, mac string
		want         Use
	}{
		{"10.10.0.1", "", Router}, {"10.10.0.4", "", Router}, {"10.10.0.5", "", Router}, {"10.10.0.0", "", Router}, {"10.10.0.255", "", Router},
		{"10.10.0.3", "", Server}, {"10.10.0.2", "", Reserved}, {"10.10.0.2", "m2", None}, {"10.10.0.15", "m2", Reserved}, {"10.10.0.15", "m1", None},
		{"10.10.0.9", "", None}, {"10.10.0.10", "", InRange}, {"10.10.0.19", "", InRange}, {"10.10.0.20", "", InDiscoveryRange}, {"10.10.0.29", "", InDiscoveryRange}, {"10.10.0.30", "", None},
		{"10.255.0.7", "", None}, {"192.0.2.1", "", None}, // none of the subnet
		{"2001:db8::", "", Router}, {"2001:db8::4", "", Router}, {"2001:db8::53", "", Server}, {"2001:db8::10", "", InRange}, {"2001:db8::20", "", None}, {"2001:db8:1::10", "", None},
	} {
		if got := Of(network, netip.MustParseAddr(tc.address), tc.mac); got != tc.want {
			t.Errorf("%s for %q: %d, want %d", tc.address, tc.mac, got, tc.want)
		}
	}
	stateless := network
	stateless.IPv6 = &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateless, Subnet: "2001:db8::/64"}
	if got := Of(stateless, netip.MustParseAddr("2001:db8::10")); got != None {
		t.Errorf("without a range: %d", got)
	}
	for use := Router; use <= InDiscoveryRange; use++ {
		if use.String() == "" {
			t.Errorf("use %d has no words", use)
		}
	}
}

func TestOnAny(t *testing.T) {
	networks := map[string]infrav1.IngotNetworkSpec{"a": {Subnet: "10.10.0.0/24"}, "b": {Subnet: "none", IPv6: &infrav1.NetworkIPv6{Subnet: "2001:db8::/64"}}}
	for address, want := range map[string]bool{"10.10.0.9": true, "10.10.1.9": false, "2001:db8::9": true, "2001:db8:1::9": false} {
		if got := OnAny(networks, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// A host that has an address in several ways counts once, and not as another host.
func TestHolders(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }
	holders := Owners{}
	for name, ips := range map[string][]string{"a": {"10.10.0.10", "10.10.0.11", "no address"}, "b": {"10.10.0.10", "2001:DB8::1"}, "c": nil} {
		host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
		host.Namespace, host.Name, hardware.Namespace, hardware.Name = "n", name, "n", name
		if ips != nil {
			host.Spec.Claim = &infrav1.HostClaim{Network: &infrav1.ClaimedNetwork{Addresses: ips}}
			hardware.Spec.Address = &infrav1.RecordedAddress{IP: ips[0], MAC: "m"}
			hardware.Spec.IPv6Address = &infrav1.RecordedAddress{IP: ips[1], MAC: "m"}
		}
		for range 2 {
			holders.Claimed(host)
			holders.Recorded(hardware)
		}
	}
	shared, own := netip.MustParseAddr("10.10.0.10"), netip.MustParseAddr("10.10.0.11")
	if diff := cmp.Diff([]types.NamespacedName{key("b")}, holders.OwnersExcept(shared, key("a"))); diff != "" {
		t.Error(diff)
	}
	if got := holders.OwnersExcept(own, key("a")); got != nil {
		t.Errorf("%v besides itself", got)
	}
	if !holders.Has(own, key("a")) || holders.Has(own, key("b")) || holders.Has(netip.Addr{}, key("a")) {
		t.Error("who has what is confused")
	}
	if got := holders[own]; len(got) != 2 || got[0].MAC != "" || got[1].MAC != "m" {
		t.Errorf("%+v, want the claim and the record", got)
	}
	want := map[string]bool{"10.10.0.10": true, "2001:db8::1": true}
	got := map[string]bool{}
	for address := range holders.Taken(key("a")) {
		got[address.String()] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("taken from a: %s", diff)
	}
}

// A system keeps its addresses until its host is confirmed off, also during the cleaning and after a
// forced release.
func TestAddressesStayUntilPowerOff(t *testing.T) {
	addresses := []string{"10.10.0.10"}
	quarantined := func(addresses ...string) *infrav1.HostRecord {
		return &infrav1.HostRecord{Quarantine: &infrav1.Quarantine{Reason: infrav1.QuarantineNotFenced, Addresses: addresses}}
	}
	for name, tc := range map[string]struct {
		claim  *infrav1.HostClaim
		record *infrav1.HostRecord
		want   bool
	}{
		"free":                       {nil, nil, false},
		"free, and known":            {nil, &infrav1.HostRecord{}, false},
		"being installed":            {&infrav1.HostClaim{State: infrav1.ClaimProvisioning}, nil, true},
		"in use":                     {&infrav1.HostClaim{State: infrav1.ClaimProvisioned}, nil, true},
		"being released":             {&infrav1.HostClaim{State: infrav1.ClaimReleasing}, nil, true},
		"off, being cleaned":         {&infrav1.HostClaim{State: infrav1.ClaimReleasing, FencedTime: metav1.Now()}, nil, false},
		"released without being off": {nil, quarantined(addresses...), true},
		"the same, had none":         {nil, quarantined(), false},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Claim: tc.claim, Record: tc.record}}
			if tc.claim != nil {
				tc.claim.Network = &infrav1.ClaimedNetwork{Addresses: addresses}
			}
			holders := Owners{}
			holders.Claimed(host)
			if got := len(holders) == 1; got != tc.want {
				t.Errorf("taken: %t, want %t", got, tc.want)
			}
		})
	}
}
