// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package normalize

import (
	"github.com/ingot-metal/ingot/api/v1beta2"
)

// Host normalizes the spec of an IngotHost, except the persistent state, which only Ingot writes.
func Host(spec *v1beta2.IngotHostSpec) {
	spec.BootMACAddress = MAC(spec.BootMACAddress)
	if spec.BMC != nil {
		spec.BMC.Address = BMCAddress(spec.BMC.Address)
	}
}

// Machine normalizes the spec of an IngotMachine or of its template, except providerID, which only
// Ingot writes.
func Machine(spec *v1beta2.IngotMachineSpec) {
	spec.Image.URL = URL(spec.Image.URL)
	spec.Image.Checksum = Checksum(spec.Image.Checksum)
	if spec.Live != nil {
		for _, file := range []*v1beta2.LiveFile{&spec.Live.Kernel, &spec.Live.Initrd} {
			file.URL, file.Checksum = URL(file.URL), Checksum(file.Checksum)
		}
	}
	spec.Hostname = Hostname(spec.Hostname)
	if data := spec.NetworkData; data != nil {
		for i := range data.Ethernets {
			data.Ethernets[i].NIC.MAC = MAC(data.Ethernets[i].NIC.MAC)
		}
	}
}

// Image normalizes the spec of an IngotImage.
func Image(spec *v1beta2.IngotImageSpec) {
	spec.URL = URL(spec.URL)
	spec.Checksum = Checksum(spec.Checksum)
}

// Cluster normalizes the spec of an IngotCluster or of its template. It also defaults the failure
// domain label, which the schema does only if a spec is present.
func Cluster(spec *v1beta2.IngotClusterSpec) {
	spec.ControlPlaneEndpoint.Host = EndpointHost(spec.ControlPlaneEndpoint.Host)
	if spec.FailureDomainLabel == "" {
		spec.FailureDomainLabel = v1beta2.RackLabel
	}
}

// Network normalizes the spec of an IngotNetwork. Addresses stay as written, because programs
// disagree about 010.0.0.1. searchDomains (a set) and the MAC addresses of reservations (keys)
// stay too.
func Network(spec *v1beta2.IngotNetworkSpec) {
	spec.Domain = Domain(spec.Domain)
}
