// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package normalize

import (
	"github.com/ingot-metal/ingot/api/v1beta2"
)

// Host brings what a person says of a server into its form. The ledger, which only
// Ingot writes, is left alone.
func Host(spec *v1beta2.IngotHostSpec) {
	spec.BootMACAddress = MAC(spec.BootMACAddress)
	if spec.BMC != nil {
		spec.BMC.Address = BMCAddress(spec.BMC.Address)
	}
}

// Machine brings the spec of an IngotMachine, or of a template of it, into its form.
// providerID is Ingot's own and left alone.
func Machine(spec *v1beta2.IngotMachineSpec) {
	spec.Image.URL = URL(spec.Image.URL)
	spec.Image.Checksum = Checksum(spec.Image.Checksum)
	if spec.Live != nil {
		for _, file := range []*v1beta2.LiveFile{&spec.Live.Kernel, &spec.Live.Initrd} {
			file.URL, file.Checksum = URL(file.URL), Checksum(file.Checksum)
		}
	}
	spec.Hostname = Hostname(spec.Hostname)
	networkData(spec.NetworkData)
}

func networkData(data *v1beta2.NetworkData) {
	if data == nil {
		return
	}
	for i := range data.Ethernets {
		data.Ethernets[i].NIC.MAC = MAC(data.Ethernets[i].NIC.MAC)
	}
}

// Image brings an image of the catalogue into its form.
func Image(spec *v1beta2.IngotImageSpec) {
	spec.URL = URL(spec.URL)
	spec.Checksum = Checksum(spec.Checksum)
}

// Cluster brings the spec of an IngotCluster, or of a template of it, into its form,
// and gives it the failure domain label that the schema gives only where a spec is.
func Cluster(spec *v1beta2.IngotClusterSpec) {
	spec.ControlPlaneEndpoint.Host = EndpointHost(spec.ControlPlaneEndpoint.Host)
	if spec.FailureDomainLabel == "" {
		spec.FailureDomainLabel = v1beta2.RackLabel
	}
}

// Network brings the spec of an IngotNetwork into its form. Addresses are taken as
// they are written: 010.0.0.1 means one thing to some programs and another to others.
// So are searchDomains, a set, and the MAC addresses of reservations, which are keys.
func Network(spec *v1beta2.IngotNetworkSpec) {
	spec.Domain = Domain(spec.Domain)
}
