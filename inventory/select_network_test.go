// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A host whose interfaces or addresses do not fit networkData is not chosen, and the
// message says why.
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
		{bare, "bare (the network asked for does not fit the host: ethernet uplink0: none of 0 interfaces boot the host); of 1 hosts 1 without the network asked for"},
		{unrecorded, "no IPv4 address is recorded for the host"},
	} {
		got := Select(networked, []Candidate{tc.host})
		if got.Host != nil || got.Reason != infrav1.ReasonNoMatchingHost || !strings.Contains(got.Message, tc.want) || !strings.Contains(got.Message, "asked for 1 ethernets by networkData") {
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

// What is reserved for a MAC address is given to it, in the range or beside it, and to
// nobody else.
func TestAllocateReservedAddress(t *testing.T) {
	const mac, other = "52:54:00:00:00:01", "52:54:00:00:00:02"
	network := infrav1.IngotNetworkSpec{Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.12"},
		Reservations: []infrav1.NetworkReservation{{MAC: other, IP: "10.10.0.11"}, {MAC: mac, IP: "10.10.0.200"}, {MAC: "52:54:00:00:00:03", IP: "10.99.0.1"}}}
	taken := map[netip.Addr]bool{}
	for range 3 {
		if got, err := AllocateAddress(network, taken, mac); err != nil || got.String() != "10.10.0.200" {
			t.Errorf("%s, %v, want what is reserved", got, err)
		}
		taken[netip.MustParseAddr("10.10.0.10")] = true
	}
	if got, err := AllocateAddress(network, map[netip.Addr]bool{}, other); err != nil || got.String() != "10.10.0.11" {
		t.Errorf("%s, %v, want what is reserved in the range", got, err)
	}
	if got, err := AllocateAddress(network, taken, "52:54:00:00:00:09"); err != nil || got.String() != "10.10.0.12" {
		t.Errorf("%s, %v, want the one that is neither taken nor reserved", got, err)
	}
	if got, err := AllocateAddress(network, taken, "52:54:00:00:00:03"); err != nil || got.String() != "10.10.0.12" {
		t.Errorf("%s, %v: one reserved outside of the subnet is of no use", got, err)
	}
	taken[netip.MustParseAddr("10.10.0.200")] = true
	if got, err := AllocateAddress(network, taken, mac); !errors.Is(err, ErrNetworkInvalid) || !strings.Contains(err.Error(), "10.10.0.200") {
		t.Errorf("%s, %v, want that another has it", got, err)
	}
}
