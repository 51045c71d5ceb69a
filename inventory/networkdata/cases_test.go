// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"encoding/json"
	"net/netip"
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

const (
	bootMAC  = "52:54:00:00:00:10"
	portA    = "b8:59:9f:00:00:01"
	portB    = "b8:59:9f:00:00:02"
	portC    = "b8:59:9f:00:00:03"
	rackName = "rack-a"
)

// twoCards is a server with a slow interface that it boots from, a card of two fast
// ports, and one of a single port without a link.
func twoCards() Host {
	return Host{BootMAC: bootMAC, NICs: []infrav1.HardwareNIC{
		{MAC: portC, Name: "eth0", PCI: "0000:af:00.0", Driver: "ice"},
		{MAC: portB, Name: "eth3", PCI: "0000:3b:00.1", Driver: "mlx5_core", SpeedMbps: 25000},
		{MAC: bootMAC, Name: "eth1", PCI: "0000:02:00.0", Driver: "igb", SpeedMbps: 1000},
		{MAC: portA, Name: "eth2", PCI: "0000:3b:00.0", Driver: "mlx5_core", SpeedMbps: 25000},
	}}
}

// networks of the tests: the one that hosts boot on, and one for storage.
func networks() map[string]infrav1.IngotNetworkSpec {
	return map[string]infrav1.IngotNetworkSpec{
		rackName: {Subnet: "10.10.0.0/24", Gateway: "10.10.0.1", DNSServers: []string{"10.10.0.2", "10.10.0.3"}, Domain: "dc1.example",
			Routes: []infrav1.NetworkRoute{{Destination: "172.16.0.0/12", Gateway: "10.10.0.4"}},
			IPv6:   &infrav1.NetworkIPv6{Subnet: "2001:db8:0:1::/64", DNSServers: []string{"2001:db8:0:1::53"}}},
		"storage": {Subnet: "10.30.0.0/16", MTU: new(int32(9000)),
			StaticLeases: []infrav1.StaticLease{{MAC: "52:54:00:99:99:99", IP: "10.30.0.1"}, {MAC: portB, IP: "10.30.7.2"}}},
	}
}

// sources are those of a host with two cards that booted on rack-a.
func sources() Sources {
	host := &infrav1.IngotHost{}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = bootMAC, rackName
	hardware := &infrav1.IngotHardware{}
	hardware.Spec.NICs = twoCards().NICs
	hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: rackName, MAC: bootMAC, IP: "10.10.0.20"}
	hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: rackName, MAC: bootMAC, IP: "2001:db8:0:1::20"}
	host.Namespace, host.Name = "dc1", "a07"
	return SourcesOf(host, hardware, Surroundings{Networks: networks(), Pools: map[Place]Given{
		{Link: "bond0.120", Index: 0}: {Address: netip.MustParsePrefix("10.20.3.7/22"), Gateway: netip.MustParseAddr("10.20.0.1"), From: "pool nodes"},
		{Link: "bond0.120", Index: 1}: {Address: netip.MustParsePrefix("2001:db8:20::7/64"), Gateway: netip.MustParseAddr("2001:db8:20::1"), From: "pool nodes6"},
		{Link: "bond0", Index: 0}:     {Address: netip.MustParsePrefix("10.20.3.7/22"), Gateway: netip.MustParseAddr("10.99.0.1"), From: "pool astray"},
	}})
}

func ethernet(name string, nic infrav1.NICSelector, config ...infrav1.LinkConfig) infrav1.NetworkEthernet {
	out := infrav1.NetworkEthernet{Name: name, NIC: nic}
	for _, c := range config {
		out.LinkConfig = c
	}
	return out
}

func addressed(addresses ...infrav1.LinkAddress) infrav1.LinkConfig {
	return infrav1.LinkConfig{Addresses: addresses}
}

func static(text string) infrav1.LinkAddress {
	return infrav1.LinkAddress{Source: infrav1.AddressStatic, Address: text}
}

func pooled(name string) infrav1.LinkAddress {
	return infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: name}}
}

func reservation(network string) infrav1.LinkAddress {
	return infrav1.LinkAddress{Source: infrav1.AddressStaticLease, NetworkRef: &infrav1.LocalReference{Name: network}}
}

// byRouter is a link with an address and a route.
func byRouter(address, to, via string) infrav1.LinkConfig {
	return infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{static(address)}, Routes: []infrav1.LinkRoute{{To: to, Via: via}}}
}

// asDefault asks for the gateway in so many words.
func asDefault(address infrav1.LinkAddress) infrav1.LinkAddress {
	address.Gateway = infrav1.GatewayDefaultRoute
	return address
}

// nodesVLAN is the bond and VLAN of most sites, with that configuration of the VLAN alone.
func nodesVLAN(config infrav1.LinkConfig) *infrav1.NetworkData {
	data := bondAndVLAN()
	data.Bonds[0].LinkConfig, data.VLANs[0].LinkConfig = infrav1.LinkConfig{}, config
	return data
}

var (
	recorded  = infrav1.LinkAddress{Source: infrav1.AddressRecorded}
	recorded6 = infrav1.LinkAddress{Source: infrav1.AddressRecordedIPv6}
	boot      = infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}
)

func port(n int32) infrav1.NICSelector {
	return infrav1.NICSelector{Driver: "mlx5_core", Position: &n}
}

// bondAndVLAN is what most sites have: two fast ports in one bond by LACP, untagged for
// storage, and the nodes' network in a VLAN.
func bondAndVLAN() *infrav1.NetworkData {
	return &infrav1.NetworkData{
		Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(1)), ethernet("uplink1", port(2))},
		Bonds: []infrav1.NetworkBond{{Name: "bond0", Interfaces: []string{"uplink0", "uplink1"}, Mode: infrav1.BondLACP,
			LACPRate: "fast", MinLinks: new(int32(1)), Aggregation: "bandwidth", TransmitHashPolicy: "layer3+4",
			LinkConfig: addressed(reservation("storage"))}},
		VLANs: []infrav1.NetworkVLAN{{Name: "bond0.120", Link: "bond0", ID: 120, LinkConfig: infrav1.LinkConfig{
			MTU: new(int32(1500)), RouterAdvertisements: infrav1.RouterAdvertisementsIgnore,
			Addresses:  []infrav1.LinkAddress{pooled("nodes"), pooled("nodes6")},
			DNSServers: []string{"10.20.0.2"}, SearchDomains: []string{"nodes.dc1.example", "dc1.example"},
			Routes: []infrav1.LinkRoute{{To: "10.0.0.0/8", Via: "10.20.0.9", Metric: new(int32(50))}}}}},
	}
}

// goldens are networks whose text stands in testdata.
func goldens() map[string]*infrav1.NetworkData {
	return map[string]*infrav1.NetworkData{
		"bond-vlan": bondAndVLAN(),
		"recorded":  {Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", boot, addressed(recorded, recorded6))}},
		"recorded-own-words": {Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", boot, infrav1.LinkConfig{
			MTU: new(int32(1400)), Addresses: []infrav1.LinkAddress{{Source: infrav1.AddressRecorded, Gateway: infrav1.GatewayIgnore}},
			DNSServers: []string{"192.0.2.53"}, SearchDomains: []string{"no", "example"},
			Routes: []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.10.0.254", Metric: new(int32(10))}, {To: "172.16.0.0/12", Via: "10.10.0.5"}}})}},
		// The gateways of rack-a and of the pools are not these routers.
		"own-default-route": {Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", boot, infrav1.LinkConfig{
			Addresses: []infrav1.LinkAddress{recorded}, Routes: []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.10.0.254"}}})}},
		"own-default-routes-of-both-families": nodesVLAN(infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{pooled("nodes"), pooled("nodes6")},
			Routes: []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.20.0.254", Metric: new(int32(50))}, {To: "0::0/0", Via: "2001:db8:20::fe"}}}),
		"own-default-route-of-one-family": nodesVLAN(infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{pooled("nodes"), pooled("nodes6")},
			Routes: []infrav1.LinkRoute{{To: "::/0", Via: "fe80::1"}}}),
		"own-default-route-beside-the-gateway": nodesVLAN(infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{asDefault(pooled("nodes"))},
			Routes: []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.20.0.254", Metric: new(int32(500))}}}),
		"dhcp": {Ethernets: []infrav1.NetworkEthernet{
			ethernet("uplink0", boot, infrav1.LinkConfig{DHCP: infrav1.DHCPFamilyIPv4}),
			ethernet("uplink1", port(1), infrav1.LinkConfig{DHCP: infrav1.DHCPFamilyDualStack, MTU: new(int32(9000))}),
			ethernet("uplink2", infrav1.NICSelector{PCI: "0000:af:*"}, infrav1.LinkConfig{DHCP: infrav1.DHCPFamilyIPv6, RouterAdvertisements: infrav1.RouterAdvertisementsAccept}),
		}},
		"active-backup": {
			Ethernets: []infrav1.NetworkEthernet{ethernet("fast", port(1)), ethernet("slow", boot)},
			Bonds: []infrav1.NetworkBond{{Name: "uplink", Interfaces: []string{"fast", "slow"}, Mode: infrav1.BondActiveBackup, Primary: "fast",
				MonitorMilliseconds: new(int32(200)), UpDelayMilliseconds: new(int32(400)), DownDelayMilliseconds: new(int32(0)),
				LinkConfig: infrav1.LinkConfig{MTU: new(int32(9000)), Addresses: []infrav1.LinkAddress{recorded}}}},
		},
		"jumbo-vlans": {
			Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(1)), ethernet("uplink1", port(2))},
			Bonds:     []infrav1.NetworkBond{{Name: "bond0", Interfaces: []string{"uplink0", "uplink1"}, Mode: infrav1.BondActiveBackup}},
			VLANs: []infrav1.NetworkVLAN{
				{Name: "storage", Link: "bond0", ID: 30, LinkConfig: addressed(reservation("storage"))},
				{Name: "nodes", Link: "bond0", ID: 31, LinkConfig: infrav1.LinkConfig{MTU: new(int32(1400)), Addresses: []infrav1.LinkAddress{recorded}}},
				{Name: "backup", Link: "bond0", ID: 32, LinkConfig: addressed(static("192.0.2.15/31"))}, // says none, and has not that of bond0
			},
		},
		"literal": {Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", infrav1.NICSelector{MAC: portC}, infrav1.LinkConfig{
			Addresses: []infrav1.LinkAddress{static("192.0.2.15/31"), static("2001:db8::15/64")},
			Routes:    []infrav1.LinkRoute{{To: "::/0", Via: "fe80::1"}, {To: "0.0.0.0/0", Via: "192.0.2.14"}}})}},
	}
}

func asJSON(t *testing.T, data *infrav1.NetworkData) string {
	t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
