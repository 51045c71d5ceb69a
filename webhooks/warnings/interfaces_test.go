// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// wired returns a host with interfaces of these drivers. Their MAC addresses end with the number of
// the host and their index.
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

// A warning about interfaces names the ethernet and its selector.
func TestInterfaces(t *testing.T) {
	inventory := append(append(wired(1, "igb", "mlx5_core", "mlx5_core"), wired(2, "igb", "ice", "mlx5_core")...), host("new", "tier", "new"))
	const register = "; correct it, or register such hosts: " + waits
	boot, mlx := v1beta2.NICSelector{BootNIC: v1beta2.BootNICOnly}, v1beta2.NICSelector{Driver: "mlx5_core"}
	slip := v1beta2.NICSelector{Driver: "mlx5_cor", Position: new(int32(2))}
	port := func(n int32) v1beta2.NICSelector { return v1beta2.NICSelector{Driver: "mlx5_core", Position: &n} }
	ice := v1beta2.NICSelector{Driver: "ice"}
	slipped := func(i int) string {
		return fmt.Sprintf(`spec.template.spec.networkData.ethernets[%d].nic: {"driver":"mlx5_cor","position":2}: none of the 2 inspected hosts has an interface for uplink%d `+
			"(nearest: IngotHost w1: position 2 of 0 interfaces that have driver mlx5_cor)", i, i) + register
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
				"(nearest: IngotHost w1: none of 3 interfaces have bus address 0000:3b:00.* and had a link of 25000 Mbit/s or more when inspected)" + register}},
		{"several where one is meant", asking(v1beta2.NICSelector{BootNIC: v1beta2.BootNICNever}), []string{
			`spec.template.spec.networkData.ethernets[0].nic: {"bootNIC":"Never"}: none of the 2 inspected hosts has an interface for uplink0 ` +
				"(nearest: IngotHost w1: 2 interfaces do not boot the host, and no position says which)" + register}},
		{"one interface twice", asking(boot, v1beta2.NICSelector{Driver: "igb"}), []string{
			`spec.template.spec.networkData.ethernets[1].nic: {"driver":"igb"}: none of the 2 inspected hosts has an interface for uplink1 ` +
				"(nearest: IngotHost w1: means interface 52:54:00:00:01:00 (eth0, 0000:00:00.0), as uplink0 does)" + register}},
		{"each on another host", asking(mlx, ice, port(2), boot), []string{
			"spec.template.spec.networkData.ethernets: none of the 2 inspected hosts has an interface for every ethernet, though other hosts have one for each " +
				"(nearest: IngotHost w2: networkData.ethernets[2].nic of uplink2: position 2 of 1 interface that have driver mlx5_core)" + register}},
		{"more than anybody reads", asking(slip, slip, slip, slip, slip, slip), []string{slipped(0), slipped(1), slipped(2), slipped(3),
			"spec.template.spec.networkData.ethernets: none of the 2 inspected hosts has an interface for uplink4, uplink5" + register}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newChecker(t, inventory...).Machine(t.Context(), "ns", field.NewPath("spec", "template", "spec"), tt.spec))
		})
	}
}

// An interface named by its MAC address is that of one host: a warning says whose it is,
// where the selector leaves that out, and that it is nobody's, where that is known.
func TestInterfacesByMAC(t *testing.T) {
	inspected := append(wired(1, "igb", "mlx5_core"), wired(2, "igb", "ice")...)
	storage := wired(3, "igb")
	storage[0].SetLabels(map[string]string{"tier": "storage"})
	coming := host("coming", "tier", "wired")
	coming.Spec.BootMACAddress = "52:54:00:00:04:00"
	elsewhere := host("coming", "tier", "wired")
	elsewhere.Namespace, elsewhere.Spec.BootMACAddress = "other", "52:54:00:00:05:00"
	with := func(more ...client.Object) []client.Object {
		return append(append([]client.Object{}, inspected...), more...)
	}
	addressed := with(coming, recorded("coming"))
	wanting := func(macs ...string) v1beta2.IngotMachineSpec {
		var nics []v1beta2.NICSelector
		for _, mac := range macs {
			nics = append(nics, v1beta2.NICSelector{MAC: mac})
		}
		spec := asking(nics...)
		spec.HostSelector = labelled(map[string]string{"tier": "wired"})
		return spec
	}
	driven := wanting("52:54:00:00:01:01")
	driven.NetworkData.Ethernets[0].NIC.Driver = "ice"
	const mine, nobodys = "52:54:00:00:01:01", "52:54:00:00:00:99"
	nobody := func(i, hosts int, mac string) string {
		return fmt.Sprintf(`spec.networkData.ethernets[%d].nic.mac: %q belongs to none of the %d hosts of namespace ns, which are all inspected; correct it, register its host, `+
			"or, if the interface is new, annotate that host with ingot.infrastructure.cluster.x-k8s.io/inspect=$(date -u +%%FT%%TZ): "+waits, i, mac, hosts)
	}
	tests := []struct {
		name  string
		exist []client.Object
		spec  v1beta2.IngotMachineSpec
		want  []string
	}{
		{"of a host", inspected, wanting(mine), nil},
		{"of nobody", inspected, wanting(nobodys), []string{nobody(0, 2, nobodys)}},
		{"the second of nobody", inspected, wanting(mine, nobodys), []string{nobody(1, 2, nobodys)}},
		{"more of nobody than anybody reads", inspected, wanting(nobodys, nobodys, nobodys, nobodys, nobodys), []string{
			nobody(0, 2, nobodys), nobody(1, 2, nobodys), nobody(2, 2, nobodys), nobody(3, 2, nobodys),
			`spec.networkData.ethernets[4].nic: {"mac":"52:54:00:00:00:99"}: none of the 2 inspected hosts has an interface for uplink4 ` +
				"(nearest: IngotHost w1: none of 2 interfaces have MAC address 52:54:00:00:00:99); correct it, or register such hosts: " + waits}},
		{"of nobody whom one knows", with(host("new", "tier", "new")), wanting(nobodys), []string{
			`spec.networkData.ethernets[0].nic: {"mac":"52:54:00:00:00:99"}: none of the 2 inspected hosts has an interface for uplink0 ` +
				"(nearest: IngotHost w1: none of 2 interfaces have MAC address 52:54:00:00:00:99); correct it, or register such hosts: " + waits}},
		{"of a host that the selector leaves out", with(storage...), wanting("52:54:00:00:03:00"), []string{
			`spec.networkData.ethernets[0].nic.mac: "52:54:00:00:03:00" belongs to IngotHost w3, which hostSelector does not match; correct one of them: ` + waits}},
		{"of a host to come", with(coming), wanting(coming.Spec.BootMACAddress), nil},
		{"of a host to come that has its address", addressed, wanting(coming.Spec.BootMACAddress), nil},
		{"of a host to come, and a slip", with(coming), wanting(coming.Spec.BootMACAddress, nobodys), []string{
			`spec.networkData.ethernets[1].nic: {"mac":"52:54:00:00:00:99"}: none of the 2 inspected hosts has an interface for uplink1 ` +
				"(nearest: IngotHost w1: none of 2 interfaces have MAC address 52:54:00:00:00:99); correct it, or register such hosts: " + waits}},
		{"of a host of another namespace, which stays unnamed", with(elsewhere), wanting(elsewhere.Spec.BootMACAddress), []string{nobody(0, 2, elsewhere.Spec.BootMACAddress)}},
		{"of a host, and of another driver than asked for", inspected, driven, []string{
			`spec.networkData.ethernets[0].nic: {"mac":"52:54:00:00:01:01","driver":"ice"}: none of the 2 inspected hosts has an interface for uplink0 ` +
				"(nearest: IngotHost w1: none of 2 interfaces have MAC address 52:54:00:00:01:01 and have driver ice); correct it, or register such hosts: " + waits}},
		{"of two hosts", inspected, wanting(mine, "52:54:00:00:02:01"), []string{
			"spec.networkData.ethernets: none of the 2 inspected hosts has an interface for every ethernet, though other hosts have one for each " +
				"(nearest: IngotHost w1: networkData.ethernets[1].nic of uplink1: none of 2 interfaces have MAC address 52:54:00:00:02:01); correct it, or register such hosts: " + waits}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newChecker(t, tt.exist...).Machine(t.Context(), "ns", field.NewPath("spec"), tt.spec))
		})
	}
}
