// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"strings"
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Select skips a host whose interfaces or addresses do not fit networkData, and explains that.
func TestSelectByNetwork(t *testing.T) {
	fits := candidate("fits", "r1")
	fits.Hardware.Spec.MemoryBytes = 512 << 30 // so that the others would be taken first
	mac := fits.Host.Spec.BootMACAddress
	fits.Hardware.Spec.NICs = []infrav1.HardwareNIC{{MAC: mac, Name: "eth0", PCI: "0000:02:00.0"}}
	fits.Hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: fits.Host.Spec.NetworkRef.Name, MAC: mac, IP: "10.10.0.20"}
	bare := candidate("bare", "r1")
	unrecorded := candidate("unrecorded", "r1")
	unrecorded.Hardware.Spec.NICs = fits.Hardware.Spec.NICs
	networked := request(func(r *SelectionRequest) {
		r.Around.Networks = map[string]infrav1.IngotNetworkSpec{fits.Host.Spec.NetworkRef.Name: {Subnet: "10.10.0.0/24"}}
		r.Machine.Spec.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0",
			NIC:        infrav1.NICSelector{BootNIC: infrav1.BootNICOnly},
			LinkConfig: infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{{Source: infrav1.AddressRecorded}}}}}}
	})
	if got := Select(networked, []Candidate{bare, unrecorded, fits}); got.Host == nil || got.Host.Name != "fits" {
		t.Errorf("chose %+v: %s", got.Host, got.Message)
	}
	for _, tc := range []struct {
		host Candidate
		want string
	}{
		{bare, "bare (the network asked for does not fit the host: networkData.ethernets[0].nic of uplink0: none of 0 interfaces boot the host). Requirements: 1 ethernets in networkData. Of 1 hosts: 1 without the network asked for."},
		{unrecorded, "no IPv4 address is recorded for the host"},
	} {
		got := Select(networked, []Candidate{tc.host})
		if got.Host != nil || got.Reason != infrav1.ReasonNoMatchingHost || !strings.Contains(got.Message+" "+got.Counts, tc.want) {
			t.Errorf("%s: %+v, want %q", tc.host.Host.Name, got, tc.want)
		}
	}
	// What is asked of machines that are not there yet is the interfaces: their addresses
	// are not known before.
	template := &infrav1.IngotMachineTemplate{}
	template.Namespace, template.Spec.Template.Spec = networked.Machine.Namespace, networked.Machine.Spec
	for name, want := range map[string]bool{"fits": true, "unrecorded": true, "bare": false} {
		of := map[string]Candidate{"fits": fits, "unrecorded": unrecorded, "bare": bare}[name]
		if _, ok, err := TemplateCapacity(template, networked.Cluster, nil, []Candidate{of}); ok != want || err != nil {
			t.Errorf("capacity by %s: %t, %v, want %t", name, ok, err, want)
		}
	}
	unasked := networked
	unasked.Machine = unasked.Machine.DeepCopy()
	unasked.Machine.Spec.NetworkData = nil
	if got := Select(unasked, []Candidate{bare}); got.Host == nil {
		t.Errorf("without networkData any will do: %s", got.Message)
	}
}
