// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// Static addresses in networkData that an IngotNetwork uses otherwise cause a warning.
func TestMachineAddresses(t *testing.T) {
	network := &v1beta2.IngotNetwork{}
	network.Name = "rack-a"
	network.Spec = v1beta2.IngotNetworkSpec{Subnet: "10.10.0.0/24", Gateway: "10.10.0.1", DNSServers: []string{"10.10.0.2"},
		Range:        v1beta2.AddressRange{Start: "10.10.0.10", End: "10.10.0.99"},
		StaticLeases: []v1beta2.StaticLease{{MAC: "52:54:00:00:00:01", IP: "10.10.0.200"}}}
	spec := v1beta2.IngotMachineSpec{NetworkData: &v1beta2.NetworkData{Ethernets: []v1beta2.NetworkEthernet{{Name: "uplink0"}}}}
	for _, address := range []string{"10.10.0.1/24", "10.10.0.2/24", "10.10.0.20/24", "10.10.0.200/24", "10.10.0.150/24", "192.0.2.1/24"} {
		spec.NetworkData.Ethernets[0].Addresses = append(spec.NetworkData.Ethernets[0].Addresses, v1beta2.LinkAddress{Source: v1beta2.AddressStatic, Address: address})
	}
	const at = "spec.networkData.ethernets[0].addresses"
	want := []string{
		at + `[0].address: "10.10.0.1/24" is the address of a router or relay, or of no interface, of IngotNetwork rack-a; use another address: its machines get no host until then`,
		at + `[2].address: "10.10.0.20/24" is in the range that is given to hosts of IngotNetwork rack-a; use another address: its machines get no host until then`,
	}
	check(t, want, newChecker(t, network, host("h1")).Machine(t.Context(), "ns", field.NewPath("spec"), spec))
}

// A reservation on an unknown network and a second default route cause a warning. Values that depend
// on the host or a pool do not.
func TestMachineReservations(t *testing.T) {
	network := func(name, subnet, gateway string) *v1beta2.IngotNetwork {
		out := &v1beta2.IngotNetwork{}
		out.Name, out.Spec.Subnet, out.Spec.Gateway = name, subnet, gateway
		return out
	}
	c := newChecker(t, network("storage", "10.30.0.0/16", "10.30.0.1"), network("backup", "10.40.0.0/16", "10.40.0.1"),
		network("quiet", "10.50.0.0/16", ""), host("h1"))
	reserved := func(network string, gateway v1beta2.GatewayUse) v1beta2.LinkAddress {
		return v1beta2.LinkAddress{Source: v1beta2.AddressStaticLease, NetworkRef: &v1beta2.LocalReference{Name: network}, Gateway: gateway}
	}
	link := func(addresses ...v1beta2.LinkAddress) v1beta2.LinkConfig {
		return v1beta2.LinkConfig{Addresses: addresses}
	}
	own := func(metric *int32) v1beta2.LinkConfig {
		return v1beta2.LinkConfig{Addresses: []v1beta2.LinkAddress{{Source: v1beta2.AddressStatic, Address: "192.0.2.15/24"}},
			Routes: []v1beta2.LinkRoute{{To: "0.0.0.0/0", Via: "192.0.2.1", Metric: metric}}}
	}
	const (
		first  = "spec.networkData.ethernets[0].addresses"
		second = "spec.networkData.vlans[0].addresses[0]"
		none   = "its machines get no host until then"
		ignore = "; set Ignore for one of them: " + none
	)
	for name, tc := range map[string]struct {
		ethernet, vlan v1beta2.LinkConfig
		want           []string
	}{
		"networks that are there":   {link(reserved("storage", "")), link(reserved("quiet", "")), nil},
		"one that is not":           {link(reserved("quiet", ""), reserved("bakcup", "")), v1beta2.LinkConfig{}, []string{first + `[1].networkRef.name: IngotNetwork "bakcup" does not exist; create it, or correct the name: ` + none}},
		"on a VLAN":                 {v1beta2.LinkConfig{}, link(reserved("bakcup", v1beta2.GatewayIgnore)), []string{second + `.networkRef.name: IngotNetwork "bakcup" does not exist; create it, or correct the name: ` + none}},
		"two gateways":              {link(reserved("storage", "")), link(reserved("backup", "")), []string{second + ".gateway: is unset, so that the gateway 10.40.0.1 of IngotNetwork backup is a second default route next to the gateway of IngotNetwork storage" + ignore}},
		"two gateways, said":        {link(reserved("storage", "")), link(reserved("backup", v1beta2.GatewayDefaultRoute)), []string{second + `.gateway: is "DefaultRoute", so that the gateway 10.40.0.1 of IngotNetwork backup is a second default route next to the gateway of IngotNetwork storage` + ignore}},
		"two gateways of one link":  {link(reserved("storage", ""), reserved("backup", "")), v1beta2.LinkConfig{}, []string{first + "[1].gateway: is unset, so that the gateway 10.40.0.1 of IngotNetwork backup is a second default route next to the gateway of IngotNetwork storage" + ignore}},
		"one ignored":               {link(reserved("storage", v1beta2.GatewayIgnore)), link(reserved("backup", "")), nil},
		"beside what is written":    {link(reserved("storage", "")), own(nil), []string{first + "[0].gateway: is unset, so that the gateway 10.30.0.1 of IngotNetwork storage is a second default route next to a route of uplink0.30" + ignore}},
		"beside a route by metric":  {link(reserved("storage", "")), own(new(int32(100))), nil},
		"beside what a host brings": {link(v1beta2.LinkAddress{Source: v1beta2.AddressRecorded}), link(reserved("backup", "")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1beta2.IngotMachineSpec{NetworkData: &v1beta2.NetworkData{
				Ethernets: []v1beta2.NetworkEthernet{{Name: "uplink0", LinkConfig: tc.ethernet}},
				VLANs:     []v1beta2.NetworkVLAN{{Name: "uplink0.30", Link: "uplink0", ID: 30, LinkConfig: tc.vlan}},
			}}
			check(t, tc.want, c.Machine(t.Context(), "ns", field.NewPath("spec"), spec))
		})
	}
}
