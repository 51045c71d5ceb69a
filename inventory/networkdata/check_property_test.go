// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/needs"
)

// fourPorts is a host that has all that randomData names.
func fourPorts() Host {
	host := Host{BootMAC: bootMAC}
	for i := range 4 {
		host.NICs = append(host.NICs, infrav1.HardwareNIC{MAC: fmt.Sprintf("b8:59:9f:00:00:%02d", i), PCI: fmt.Sprintf("0000:3b:00.%d", i), Driver: "mlx5_core"})
	}
	return host
}

// oneOf is one of a list by chance.
func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomConfig is that of a link, right or wrong.
func randomConfig(r *rand.Rand) infrav1.LinkConfig {
	config := infrav1.LinkConfig{MTU: oneOf(r, nil, nil, nil, new(int32(1000)), new(int32(1400)), new(int32(1500)), new(int32(9000))),
		DHCP:                 oneOf(r, "", "", "", infrav1.DHCPFamilyIPv4, infrav1.DHCPFamilyIPv6, infrav1.DHCPFamilyDualStack),
		RouterAdvertisements: oneOf(r, "", "", infrav1.RouterAdvertisementsAccept, infrav1.RouterAdvertisementsIgnore)}
	for range r.IntN(3) {
		config.Addresses = append(config.Addresses, static(fmt.Sprintf(oneOf(r, "192.0.2.%d/24", "192.0.2.%d/24", "2001:db8::%d/64", "198.51.100.%d/32"), 1+r.IntN(200))))
	}
	for range r.IntN(3) {
		to, via := oneOf(r, "0.0.0.0/0", "10.0.0.0/8"), oneOf(r, "192.0.2.254", "192.0.2.254", "169.254.0.1")
		if r.IntN(3) == 0 {
			to, via = oneOf(r, "::/0", "0::0/0", "2001:db8:7::/48"), oneOf(r, "2001:db8::fe", "fe80::1")
		}
		if slices.ContainsFunc(config.Routes, func(have infrav1.LinkRoute) bool { return have.To == to }) {
			continue // the schema says so
		}
		config.Routes = append(config.Routes, infrav1.LinkRoute{To: to, Via: via, Metric: oneOf(r, nil, new(int32(100)), new(1+r.Int32N(1000)))})
	}
	return config
}

// randomData has no other address than those that are written.
func randomData(r *rand.Rand) *infrav1.NetworkData {
	data := &infrav1.NetworkData{}
	var free []string // ethernets in no bond
	for i := range 1 + r.IntN(4) {
		position := int32(i + 1)
		if r.IntN(20) == 0 {
			position = 1 + r.Int32N(4)
		}
		name := fmt.Sprintf("uplink%d", i)
		data.Ethernets = append(data.Ethernets, ethernet(name, port(position)))
		free = append(free, name)
	}
	carriers := []string{}
	if len(free) > 1 && r.IntN(2) == 0 {
		data.Bonds = []infrav1.NetworkBond{{Name: "bond0", Interfaces: free[:2], Mode: infrav1.BondLACP,
			MinLinks: oneOf(r, nil, new(1+r.Int32N(3))), LinkConfig: randomConfig(r)}}
		for i := range 2 {
			data.Ethernets[i].MTU = oneOf(r, nil, nil, new(int32(1500)), new(int32(9000)))
		}
		carriers, free = append(carriers, "bond0"), free[2:]
	}
	for i := range data.Ethernets[len(data.Ethernets)-len(free):] {
		data.Ethernets[len(data.Ethernets)-len(free)+i].LinkConfig = randomConfig(r)
	}
	carriers = append(carriers, free...)
	for i := range r.IntN(3) {
		data.VLANs = append(data.VLANs, infrav1.NetworkVLAN{Name: fmt.Sprintf("vlan%d", i), Link: oneOf(r, carriers...), ID: int32(20 + i), LinkConfig: randomConfig(r)})
	}
	return data
}

// Admitted networkData with static addresses resolves on a host with the interfaces.
func TestAdmittedDataResolves(t *testing.T) {
	admitted, vlans := 0, 0
	for seed := range needs.Sample(5000) {
		data := randomData(rand.New(rand.NewPCG(seed, 1)))
		if len(Check(field.NewPath("net"), data)) > 0 {
			continue
		}
		admitted++
		vlans += len(data.VLANs)
		if _, err := Resolve(data, Sources{Host: fourPorts()}); err != nil {
			t.Fatalf("seed %d: %v\nof %s", seed, err, asJSON(t, data))
		}
	}
	if admitted < int(needs.Sample(500)) || vlans < int(needs.Sample(100)) {
		t.Errorf("only %d of %d are admitted, with %d VLANs: the data is too strange to show much", admitted, needs.Sample(5000), vlans)
	}
}
