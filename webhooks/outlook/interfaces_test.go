// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// wired is a host with interfaces of these drivers, on one card after the other. Their MAC
// addresses end with its number and theirs, from 0 on.
func wired(number int, drivers ...string) []client.Object {
	name := fmt.Sprintf("w%d", number)
	h, facts := host(name, "tier", "wired"), hardware(name, "amd64", 8, 64, 500)
	facts.Spec.NICs = nil
	for i, driver := range drivers {
		facts.Spec.NICs = append(facts.Spec.NICs, v1beta2.HardwareNIC{Name: fmt.Sprintf("eth%d", i), Driver: driver,
			MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", number, i), PCI: fmt.Sprintf("0000:%02x:00.0", i)})
	}
	h.Spec.BootMACAddress = facts.Spec.NICs[0].MAC
	return []client.Object{h, facts}
}

func asking(nics ...v1beta2.NICSelector) v1beta2.IngotMachineSpec {
	data := &v1beta2.NetworkData{}
	for i, nic := range nics {
		data.Ethernets = append(data.Ethernets, v1beta2.NetworkEthernet{Name: fmt.Sprintf("uplink%d", i), NIC: nic})
	}
	return v1beta2.IngotMachineSpec{NetworkData: data}
}

// A warning about interfaces names the ethernet that no host has one for, and what it asks.
func TestInterfaces(t *testing.T) {
	inventory := append(append(wired(1, "igb", "mlx5_core", "mlx5_core"), wired(2, "igb", "ice", "mlx5_core")...), host("new", "tier", "new"))
	const register = "; correct it, or register such hosts, " + waits
	boot, mlx := v1beta2.NICSelector{BootNIC: v1beta2.BootNICOnly}, v1beta2.NICSelector{Driver: "mlx5_core"}
	slip := v1beta2.NICSelector{Driver: "mlx5_cor", Position: new(int32(2))}
	port := func(n int32) v1beta2.NICSelector { return v1beta2.NICSelector{Driver: "mlx5_core", Position: &n} }
	ice := v1beta2.NICSelector{Driver: "ice"}
	slipped := func(i int) string {
		return fmt.Sprintf(`spec.template.spec.networkData.ethernets[%d].nic: {"driver":"mlx5_cor","position":2}: none of the 2 inspected hosts has an interface for uplink%d `+
			"(IngotHost w1: position 2 of 0 interfaces that have driver mlx5_cor)", i, i) + register
	}
	tests := []struct {
		name string
		spec v1beta2.IngotMachineSpec
		want []string
	}{
		{"what one host has", asking(boot, port(1), port(2)), nil},
		{"a slip in the third", asking(boot, port(1), slip), []string{slipped(2)}},
		{"two that no host has", asking(slip, boot, v1beta2.NICSelector{PCI: "0000:3b:00.*", MinSpeedMbps: new(int32(25000))}), []string{
			slipped(0),
			`spec.template.spec.networkData.ethernets[2].nic: {"pci":"0000:3b:00.*","minSpeedMbps":25000}: none of the 2 inspected hosts has an interface for uplink2 ` +
				"(IngotHost w1: none of 3 interfaces have bus address 0000:3b:00.* and had a link of 25000 Mbit/s or more when inspected)" + register}},
		{"several where one is meant", asking(v1beta2.NICSelector{BootNIC: v1beta2.BootNICNever}), []string{
			`spec.template.spec.networkData.ethernets[0].nic: {"bootNIC":"Never"}: none of the 2 inspected hosts has an interface for uplink0 ` +
				"(IngotHost w1: 2 interfaces do not boot the host, and no position says which)" + register}},
		{"one interface twice", asking(boot, v1beta2.NICSelector{Driver: "igb"}), []string{
			`spec.template.spec.networkData.ethernets[1].nic: {"driver":"igb"}: none of the 2 inspected hosts has an interface for uplink1 ` +
				"(IngotHost w1: means interface 52:54:00:00:01:00 (eth0, 0000:00:00.0), as uplink0 does)" + register}},
		{"each on another host", asking(mlx, ice, port(2), boot), []string{
			"spec.template.spec.networkData.ethernets: none of the 2 inspected hosts has an interface for each, though each has one on some host " +
				"(IngotHost w2: networkData.ethernets[2].nic of uplink2: position 2 of 1 interface that have driver mlx5_core)" + register}},
		{"more than anybody reads", asking(slip, slip, slip, slip, slip, slip), []string{slipped(0), slipped(1), slipped(2), slipped(3),
			"spec.template.spec.networkData.ethernets: none of the 2 inspected hosts has an interface for uplink4, uplink5 either" + register}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newOutlook(t, inventory...).Machine(t.Context(), "ns", field.NewPath("spec", "template", "spec"), tt.spec))
		})
	}
}
