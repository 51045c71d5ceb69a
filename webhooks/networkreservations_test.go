// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// An address that a host has, by record or by claim, cannot be reserved for another host. Removing
// such a reservation causes a warning.
func TestReservationsOfHosts(t *testing.T) {
	const mine, others, fresh = "52:54:00:00:00:0a", "52:54:00:00:00:0b", "52:54:00:00:00:0c"
	named := metav1.ObjectMeta{Namespace: "ns", Name: "h1"}
	runs, facts := &v1beta2.IngotHost{ObjectMeta: named}, &v1beta2.IngotHardware{ObjectMeta: named}
	runs.Spec.Claim = &v1beta2.HostClaim{Network: &v1beta2.ClaimedNetwork{Addresses: []string{"10.20.0.7"}}}
	facts.Spec.NICs = []v1beta2.HardwareNIC{{MAC: "52:54:00:00:00:01"}, {MAC: mine}}
	facts.Spec.Address = &v1beta2.RecordedAddress{NetworkName: "another", MAC: "52:54:00:00:00:01", IP: "10.20.0.8"}
	bare := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h2"}} // without IngotHardware
	bare.Spec.Claim = &v1beta2.HostClaim{Network: &v1beta2.ClaimedNetwork{Addresses: []string{"10.20.0.9"}}}
	unknownClient := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h3"}}
	unknownClient.Spec.BootMACAddress = others
	with := func(kept ...string) *v1beta2.IngotNetwork {
		n := network("n", "10.20.0.0/24", "10.20.0.100", "10.20.0.199", "")
		for i := 0; i < len(kept); i += 2 {
			n.Spec.StaticLeases = append(n.Spec.StaticLeases, v1beta2.StaticLease{MAC: kept[i], IP: kept[i+1]})
		}
		return n
	}
	const path = "spec.staticLeases[0].ip"
	for name, tc := range map[string]struct {
		before, after *v1beta2.IngotNetwork
		refused, told string
	}{
		"for the host that has it":                  {with(), with(mine, "10.20.0.7"), "", ""},
		"for another":                               {with(), with(others, "10.20.0.7"), path, ""},
		"moved to another":                          {with(mine, "10.20.0.7"), with(others, "10.20.0.7"), path, ""},
		"moved to its new card":                     {with(mine, "10.20.0.7"), with(fresh, "10.20.0.7"), "", ""},
		"recorded, moved to its new card":           {with("52:54:00:00:00:01", "10.20.0.8"), with(fresh, "10.20.0.8"), "", ""},
		"recorded, moved to another":                {with("52:54:00:00:00:01", "10.20.0.8"), with(others, "10.20.0.8"), path, ""},
		"a new card, of an address of others":       {with(others, "10.20.0.7"), with(fresh, "10.20.0.7"), path, ""},
		"stands already":                            {with(others, "10.20.0.7"), with(others, "10.20.0.7", mine, "10.20.0.50"), "", ""},
		"of a host whose facts a move brings later": {with(), with(others, "10.20.0.9"), "", ""},
		"recorded on another network":               {with(), with(others, "10.20.0.8"), path, ""},
		"recorded for another NIC of it":            {with(), with(mine, "10.20.0.8"), "", ""},
		"recorded for it":                           {with(), with("52:54:00:00:00:01", "10.20.0.8"), "", ""},
		"nobody's":                                  {with(), with(others, "10.20.0.50"), "", ""},
		"taken away":                                {with(mine, "10.20.0.7", others, "10.20.0.50"), with(), "", "installed systems keep the removed addresses 10.20.0.7"},
		"taken away, and nobody's":                  {with(others, "10.20.0.50"), with(), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{runs.DeepCopy(), facts.DeepCopy(), bare.DeepCopy(), unknownClient.DeepCopy()}
			got, err := newNetworkValidator(t, objects...).ValidateUpdate(t.Context(), tc.before, tc.after)
			checkRefusal(t, err, tc.refused)
			if warned := strings.Join(got, "\n"); tc.refused == "" && !strings.Contains(warned, tc.told) || tc.told == "" && strings.Contains(warned, "installed systems") {
				t.Errorf("warned %q, want %q", warned, tc.told)
			}
			if tc.refused != "" {
				_, err := newNetworkValidator(t, objects...).ValidateCreate(t.Context(), tc.after)
				checkRefusal(t, err, tc.refused)
			}
		})
	}
}

func TestCheckReservations(t *testing.T) {
	keep := func(mac, ip string) v1beta2.StaticLease { return v1beta2.StaticLease{MAC: mac, IP: ip} }
	spec := v1beta2.IngotNetworkSpec{Subnet: "10.77.0.0/24", Gateway: "10.77.0.1",
		Discover: &v1beta2.NetworkDiscovery{Range: v1beta2.AddressRange{Start: "10.77.0.200", End: "10.77.0.210"}}}
	for name, tc := range map[string]struct {
		kept []v1beta2.StaticLease
		want string
	}{
		"two interfaces":    {[]v1beta2.StaticLease{keep("a", "10.77.0.9"), keep("b", "10.77.0.10")}, ""},
		"one address twice": {[]v1beta2.StaticLease{keep("a", "10.77.0.9"), keep("b", "10.77.0.9")}, "spec.staticLeases[1].ip: Invalid value: \"10.77.0.9\": is already reserved for a"},
		"outside":           {[]v1beta2.StaticLease{keep("a", "10.78.0.9")}, "must be in spec.subnet"},
		"the subnet itself": {[]v1beta2.StaticLease{keep("a", "10.77.0.0")}, "first or last address"},
		"the gateway":       {[]v1beta2.StaticLease{keep("a", "10.77.0.1")}, "address of the gateway"},
		"for discovery":     {[]v1beta2.StaticLease{keep("a", "10.77.0.210")}, "for unknown clients"},
		"next to discovery": {[]v1beta2.StaticLease{keep("a", "10.77.0.211")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			network := spec
			network.StaticLeases = tc.kept
			errs := checkReservations(network)
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Errorf("%v, want %q", errs.ToAggregate(), tc.want)
			}
		})
	}
}

// A static address or a MAC address in a template suits one machine only, and causes a warning.
func TestSingleMachineWarnings(t *testing.T) {
	link := v1beta2.LinkConfig{Addresses: []v1beta2.LinkAddress{{Source: v1beta2.AddressRecorded}, {Source: v1beta2.AddressStatic, Address: "10.20.3.7/22"}}}
	data := &v1beta2.NetworkData{
		Ethernets: []v1beta2.NetworkEthernet{{NIC: v1beta2.NICSelector{MAC: "52:54:00:00:00:01"}}, {LinkConfig: link}},
		Bonds:     []v1beta2.NetworkBond{{LinkConfig: link}},
		VLANs:     []v1beta2.NetworkVLAN{{LinkConfig: link}},
	}
	got := singleMachineWarnings(field.NewPath("spec"), data)
	want := []string{"ethernets[0].nic.mac: the machines of the template can only use the server with 52:54:00:00:00:01", "ethernets[1].addresses[1].address: every machine", "bonds[0].addresses[1].address", "vlans[0].addresses[1].address"}
	if len(got) != len(want) {
		t.Fatalf("%d warnings: %q", len(got), got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	if got := singleMachineWarnings(field.NewPath("spec"), nil); got != nil {
		t.Errorf("%q of nothing", got)
	}
}
