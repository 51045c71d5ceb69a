// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

func TestCheckReservations(t *testing.T) {
	keep := func(mac, ip string) v1beta2.NetworkReservation { return v1beta2.NetworkReservation{MAC: mac, IP: ip} }
	spec := v1beta2.IngotNetworkSpec{Subnet: "10.77.0.0/24", Gateway: "10.77.0.1",
		Discover: &v1beta2.NetworkDiscovery{Range: v1beta2.AddressRange{Start: "10.77.0.200", End: "10.77.0.210"}}}
	for name, tc := range map[string]struct {
		kept []v1beta2.NetworkReservation
		want string
	}{
		"two interfaces":      {[]v1beta2.NetworkReservation{keep("a", "10.77.0.9"), keep("b", "10.77.0.10")}, ""},
		"one address twice":   {[]v1beta2.NetworkReservation{keep("a", "10.77.0.9"), keep("b", "10.77.0.9")}, "reservations[1].ip: Invalid value: \"10.77.0.9\": is reserved for a already"},
		"outside":             {[]v1beta2.NetworkReservation{keep("a", "10.78.0.9")}, "must lie in spec.subnet"},
		"the subnet itself":   {[]v1beta2.NetworkReservation{keep("a", "10.77.0.0")}, "first or last address"},
		"the gateway":         {[]v1beta2.NetworkReservation{keep("a", "10.77.0.1")}, "address of the gateway"},
		"lent to strangers":   {[]v1beta2.NetworkReservation{keep("a", "10.77.0.210")}, "lent to unknown machines"},
		"beside what is lent": {[]v1beta2.NetworkReservation{keep("a", "10.77.0.211")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			network := spec
			network.Reservations = tc.kept
			errs := checkReservations(network)
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Errorf("%v, want %q", errs.ToAggregate(), tc.want)
			}
		})
	}
}

// In a template an address as it is written, and a MAC address, can be right for one
// machine only: admission warns, and says where.
func TestOnlyOnce(t *testing.T) {
	link := v1beta2.LinkConfig{Addresses: []v1beta2.LinkAddress{{Source: v1beta2.AddressRecorded}, {Source: v1beta2.AddressStatic, Address: "10.20.3.7/22"}}}
	data := &v1beta2.NetworkData{
		Ethernets: []v1beta2.NetworkEthernet{{NIC: v1beta2.NICSelector{MAC: "52:54:00:00:00:01"}}, {LinkConfig: link}},
		Bonds:     []v1beta2.NetworkBond{{LinkConfig: link}},
		VLANs:     []v1beta2.NetworkVLAN{{LinkConfig: link}},
	}
	got := onlyOnce(field.NewPath("spec"), data)
	want := []string{"ethernets[0].nic.mac: only the server with 52:54:00:00:00:01", "ethernets[1].addresses[1].address: every machine", "bonds[0].addresses[1].address", "vlans[0].addresses[1].address"}
	if len(got) != len(want) {
		t.Fatalf("%d warnings: %q", len(got), got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	if got := onlyOnce(field.NewPath("spec"), nil); got != nil {
		t.Errorf("%q of nothing", got)
	}
}
