// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// onlyOnce warns of what in a template can be right for one machine only.
func onlyOnce(path *field.Path, data *v1beta2.NetworkData) admission.Warnings {
	if data == nil {
		return nil
	}
	var out admission.Warnings
	config := func(at *field.Path, link v1beta2.LinkConfig) {
		for i, address := range link.Addresses {
			if address.Source == v1beta2.AddressStatic {
				out = append(out, fmt.Sprintf("%s: every machine made from the template gets %s; use source Recorded, Reservation or Pool, or make only one",
					at.Child("addresses").Index(i).Child("address"), address.Address))
			}
		}
	}
	for i := range data.Ethernets {
		at := path.Child("ethernets").Index(i)
		if mac := data.Ethernets[i].NIC.MAC; mac != "" {
			out = append(out, fmt.Sprintf("%s: only the server with %s can be chosen for the machines of the template; choose the interface by bootNIC, pci or driver",
				at.Child("nic", "mac"), mac))
		}
		config(at, data.Ethernets[i].LinkConfig)
	}
	for i := range data.Bonds {
		config(path.Child("bonds").Index(i), data.Bonds[i].LinkConfig)
	}
	for i := range data.VLANs {
		config(path.Child("vlans").Index(i), data.VLANs[i].LinkConfig)
	}
	return out
}
