// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// What is written into networkData and is somebody's on an IngotNetwork is told of.
func TestMachineAddresses(t *testing.T) {
	network := &v1beta2.IngotNetwork{}
	network.Name = "rack-a"
	network.Spec = v1beta2.IngotNetworkSpec{Subnet: "10.10.0.0/24", Gateway: "10.10.0.1", DNSServers: []string{"10.10.0.2"},
		Range:        v1beta2.AddressRange{Start: "10.10.0.10", End: "10.10.0.99"},
		Reservations: []v1beta2.NetworkReservation{{MAC: "52:54:00:00:00:01", IP: "10.10.0.200"}}}
	spec := v1beta2.IngotMachineSpec{NetworkData: &v1beta2.NetworkData{Ethernets: []v1beta2.NetworkEthernet{{Name: "uplink0"}}}}
	for _, address := range []string{"10.10.0.1/24", "10.10.0.2/24", "10.10.0.20/24", "10.10.0.200/24", "10.10.0.150/24", "192.0.2.1/24"} {
		spec.NetworkData.Ethernets[0].Addresses = append(spec.NetworkData.Ethernets[0].Addresses, v1beta2.LinkAddress{Source: v1beta2.AddressStatic, Address: address})
	}
	const at = "spec.networkData.ethernets[0].addresses"
	want := []string{
		at + `[0].address: "10.10.0.1/24" is the address of a router or relay, or of no interface, of IngotNetwork rack-a; give another, until then no host is given to its machines`,
		at + `[2].address: "10.10.0.20/24" is in the range that is given to hosts of IngotNetwork rack-a; give another, until then no host is given to its machines`,
	}
	check(t, want, newOutlook(t, network, host("h1")).Machine(t.Context(), "ns", field.NewPath("spec"), spec))
}
