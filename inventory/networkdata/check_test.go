// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Each refusal has the field and a remedy. test/validation has the complete texts.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(*infrav1.NetworkData)
		field, want string
	}{
		"name of two kinds": {func(d *infrav1.NetworkData) { d.VLANs[0].Name = "bond0" }, "vlans[0].name", "give this one another name"},
		"member unknown":    {func(d *infrav1.NetworkData) { d.Bonds[0].Interfaces[1] = "uplink7" }, "bonds[0].interfaces[1]", "must be the name of one of ethernets"},
		"member is a VLAN":  {func(d *infrav1.NetworkData) { d.Bonds[0].Interfaces[1] = "bond0.120" }, "bonds[0].interfaces[1]", "must be the name of one of ethernets"},
		"member of two": {func(d *infrav1.NetworkData) {
			d.Bonds = append(d.Bonds, infrav1.NetworkBond{Name: "bond1", Interfaces: []string{"uplink1"}, Mode: infrav1.BondActiveBackup})
		}, "bonds[1].interfaces[0]", "is in bond0 already"},
		"member with addresses": {func(d *infrav1.NetworkData) { d.Ethernets[0].LinkConfig = addressed(recorded) }, "ethernets[0].name", "give them to the bond"},
		"member with DHCP":      {func(d *infrav1.NetworkData) { d.Ethernets[1].DHCP = infrav1.DHCPFamilyIPv4 }, "ethernets[1].name", "give them to the bond"},
		"carrier unknown":       {func(d *infrav1.NetworkData) { d.VLANs[0].Link = "bond7" }, "vlans[0].link", "must be the name of one of ethernets or bonds"},
		"carrier is itself":     {func(d *infrav1.NetworkData) { d.VLANs[0].Link = "bond0.120" }, "vlans[0].link", "must be the name of one of ethernets or bonds"},
		"carrier is a member":   {func(d *infrav1.NetworkData) { d.VLANs[0].Link = "uplink0" }, "vlans[0].link", "give the bond as link"},
		"VLAN twice": {func(d *infrav1.NetworkData) {
			d.VLANs = append(d.VLANs, infrav1.NetworkVLAN{Name: "other", Link: "bond0", ID: 120})
		}, "vlans[1].id", "give that one both addresses"},
		"nothing to reach it by": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig, d.VLANs = infrav1.LinkConfig{}, nil
		}, "ethernets", "nothing could reach the system"},
		"subnet's own address": {func(d *infrav1.NetworkData) { d.Bonds[0].LinkConfig = addressed(static("10.20.0.0/22")) }, "bonds[0].addresses[0].address", "such as 10.20.0.1/22"},
		"broadcast address":    {func(d *infrav1.NetworkData) { d.Bonds[0].LinkConfig = addressed(static("10.20.3.255/22")) }, "bonds[0].addresses[0].address", "such as 10.20.3.254/22"},
		"loopback":             {func(d *infrav1.NetworkData) { d.Bonds[0].LinkConfig = addressed(static("127.0.0.2/8")) }, "bonds[0].addresses[0].address", "no address that a host can have"},
		"address twice": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig = addressed(static("10.20.0.5/22"), static("10.20.0.5/24"))
		}, "bonds[0].addresses[1].address", "is an address of bond0 already"},
		"recorded twice": {func(d *infrav1.NetworkData) { d.Bonds[0].LinkConfig = addressed(recorded, recorded) }, "bonds[0].addresses[1].source", "a host has one of them recorded"},
		"reservation twice": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig = addressed(reservation("storage"), reservation("storage"))
		}, "bonds[0].addresses[1].networkRef.name", "reserves one for an interface"},
		"reservation twice for one interface": {func(d *infrav1.NetworkData) { d.VLANs[0].LinkConfig = addressed(reservation("storage")) },
			"vlans[0].addresses[0].networkRef.name", "is asked for an address of bond0 already"},
		"reservation twice in VLANs of one interface": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig, d.VLANs[0].LinkConfig = infrav1.LinkConfig{}, addressed(reservation("storage"))
			d.VLANs = append(d.VLANs, infrav1.NetworkVLAN{Name: "other", Link: "bond0", ID: 121, LinkConfig: addressed(reservation("storage"))})
		}, "vlans[1].addresses[0].networkRef.name", "is asked for an address of bond0.120 already"},
		"one interface twice": {func(d *infrav1.NetworkData) { d.Ethernets[1].NIC = port(1) }, "ethernets[1].nic", "is that of uplink0 already"},
		"two default routes": {func(d *infrav1.NetworkData) {
			d.Bonds[0].Routes = []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.30.0.9"}}
			d.VLANs[0].Routes[0] = infrav1.LinkRoute{To: "0.0.0.0/0", Via: "10.20.0.9"}
		}, "vlans[0].routes[0].to", "as is a route of bond0: remove one of them"},
		"two default routes of a metric": {func(d *infrav1.NetworkData) {
			d.Bonds[0].Routes = []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.30.0.9", Metric: new(int32(50))}}
			d.VLANs[0].Routes[0].To = "0.0.0.0/0"
		}, "vlans[0].routes[0].to", "is that of a route of bond0, too, with the same metric"},
		"one destination on two links": {func(d *infrav1.NetworkData) {
			d.Bonds[0].Routes = []infrav1.LinkRoute{{To: "10.0.0.0/8", Via: "10.30.0.9"}}
			d.VLANs[0].Routes[0].Metric = nil
		}, "vlans[0].routes[0].to", "is that of a route of bond0, too, with the same metric"},
		"one destination in two spellings": {func(d *infrav1.NetworkData) {
			d.Bonds[0].Routes = []infrav1.LinkRoute{{To: "2001:db8:0::/48", Via: "fe80::1"}}
			d.VLANs[0].Routes[0] = infrav1.LinkRoute{To: "2001:db8::/48", Via: "fe80::2"}
		}, "vlans[0].routes[0].to", "is that of a route of bond0, too, with the same metric"},
		"route of another family": {func(d *infrav1.NetworkData) { d.VLANs[0].Routes[0].Via = "2001:db8::1" }, "vlans[0].routes[0].via", "of another family"},
		"route without address": {func(d *infrav1.NetworkData) {
			d.Ethernets = append(d.Ethernets, ethernet("mgmt", boot, infrav1.LinkConfig{Routes: []infrav1.LinkRoute{{To: "192.0.2.0/24", Via: "10.10.0.1"}}}))
		}, "ethernets[2].routes[0].via", "mgmt has no address"},
		"router out of reach": {func(d *infrav1.NetworkData) { d.VLANs[0].Addresses = []infrav1.LinkAddress{static("10.24.0.5/22")} }, "vlans[0].routes[0].via", "in no subnet of the addresses"},
		"IPv4 router of no subnet": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = byRouter("198.51.100.5/32", "0.0.0.0/0", "169.254.0.1")
		}, "vlans[0].routes[0].via", "in no subnet of the addresses"},
		"IPv4 router that nothing tells of": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = byRouter("198.51.100.5/32", "0.0.0.0/0", "198.51.100.1")
			d.VLANs[0].DHCP, d.VLANs[0].RouterAdvertisements = infrav1.DHCPFamilyIPv6, infrav1.RouterAdvertisementsAccept
		}, "vlans[0].routes[0].via", "in no subnet of the addresses"},
		"more links than there are": {func(d *infrav1.NetworkData) { d.Bonds[0].MinLinks = new(int32(3)) }, "bonds[0].minLinks", "than the bond has interfaces, 2"},
		"too small for a static IPv6 address": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = infrav1.LinkConfig{MTU: new(int32(1279)), Addresses: []infrav1.LinkAddress{static("2001:db8::5/64")}}
		}, "vlans[0].mtu", "give 1280 or more"},
		"too small for the recorded IPv6 address": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = infrav1.LinkConfig{MTU: new(int32(576)), Addresses: []infrav1.LinkAddress{recorded, recorded6}}
		}, "vlans[0].mtu", "give 1280 or more"},
		"too small for DHCP of IPv6": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = infrav1.LinkConfig{MTU: new(int32(1000)), DHCP: infrav1.DHCPFamilyIPv6}
		}, "vlans[0].mtu", "give 1280 or more"},
		"too small for DHCP of both": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = infrav1.LinkConfig{MTU: new(int32(1000)), DHCP: infrav1.DHCPFamilyDualStack}
		}, "vlans[0].mtu", "give 1280 or more"},
		"too small for router advertisements": {func(d *infrav1.NetworkData) {
			d.VLANs[0].LinkConfig = infrav1.LinkConfig{MTU: new(int32(1000)), RouterAdvertisements: infrav1.RouterAdvertisementsAccept}
		}, "vlans[0].mtu", "give 1280 or more"},
		"too small for IPv6 of a VLAN on it": {func(d *infrav1.NetworkData) {
			d.Bonds[0].MTU, d.VLANs[0].LinkConfig = new(int32(1000)), addressed(static("2001:db8::5/64"))
		}, "bonds[0].mtu", "bond0.120 would have no IPv6 address"},
		"VLAN larger than its link": {func(d *infrav1.NetworkData) {
			d.Bonds[0].MTU, d.VLANs[0].MTU = new(int32(1500)), new(int32(9000))
		}, "vlans[0].mtu", "give both the same"},
		"VLAN larger than what its link takes by itself": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig, d.VLANs[0].MTU = addressed(static("10.30.0.5/16")), new(int32(9000))
		}, "vlans[0].mtu", "does not pass bond0, which without mtu takes 1500: give bond0 mtu 9000, too"},
		"VLAN larger than what a pool's link takes by itself": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig, d.VLANs[0].MTU = addressed(pooled("storage")), new(int32(9000))
		}, "vlans[0].mtu", "does not pass bond0, which without mtu takes 1500: give bond0 mtu 9000, too"},
		"VLAN larger than a member of its bond": {func(d *infrav1.NetworkData) {
			d.Bonds[0].LinkConfig, d.VLANs[0].MTU, d.Ethernets[1].MTU = infrav1.LinkConfig{}, new(int32(9000)), new(int32(1500))
		}, "ethernets[1].mtu", "does not go with mtu 9000 of bond0, which its VLANs ask for"},
		"member smaller than its bond": {func(d *infrav1.NetworkData) {
			d.Bonds[0].MTU, d.Ethernets[0].MTU = new(int32(9000)), new(int32(1500))
		}, "ethernets[0].mtu", "give both the same"},
	} {
		t.Run(name, func(t *testing.T) {
			data := bondAndVLAN()
			tc.change(data)
			errs := Check(field.NewPath("spec", "networkData"), data)
			if len(errs) != 1 || errs[0].Field != "spec.networkData."+tc.field || !strings.Contains(errs[0].Detail, tc.want) {
				t.Errorf("%v, want one of %s with %q", errs.ToAggregate(), tc.field, tc.want)
			}
		})
	}
	twoSources, beside := bondAndVLAN(), bondAndVLAN()
	twoSources.VLANs[0].LinkConfig = addressed(recorded) // whether either network has a gateway, Resolve knows
	beside.VLANs[0].Routes[0] = infrav1.LinkRoute{To: "0.0.0.0/0", Via: "10.20.0.9"}
	twice := bondAndVLAN()
	twice.Bonds[0].Routes = []infrav1.LinkRoute{{To: "10.0.0.0/8", Via: "10.30.0.9"}}
	larger := func(of infrav1.LinkConfig) *infrav1.NetworkData {
		data := bondAndVLAN()
		data.Bonds[0].LinkConfig, data.VLANs[0].MTU = of, new(int32(9000))
		return data
	}
	for name, data := range map[string]*infrav1.NetworkData{"nothing": nil, "bond and VLAN": bondAndVLAN(),
		"recorded and reserved": twoSources, "default route beside a reservation": beside,
		"larger than a link that a network may tell": larger(infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{recorded}}),
		"larger than a link that DHCP may tell":      larger(infrav1.LinkConfig{DHCP: infrav1.DHCPFamilyIPv4}),
		"larger than a link without addresses":       larger(infrav1.LinkConfig{}),
		"one destination with two metrics":           twice,
		"one network for two interfaces":             {Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(1), addressed(reservation("storage"))), ethernet("uplink1", port(2), addressed(reservation("storage")))}},
		"IPv4 router in its own subnet":              nodesVLAN(byRouter("169.254.0.5/16", "0.0.0.0/0", "169.254.0.1")),
		"IPv6 router of every link":                  nodesVLAN(byRouter("2001:db8::5/128", "::/0", "fe80::1")),
		"small for IPv4 alone":                       nodesVLAN(infrav1.LinkConfig{MTU: new(int32(1279)), DHCP: infrav1.DHCPFamilyIPv4, Addresses: []infrav1.LinkAddress{recorded, static("192.0.2.5/24")}}),
		"the least that IPv6 does with":              nodesVLAN(infrav1.LinkConfig{MTU: new(int32(1280)), Addresses: []infrav1.LinkAddress{recorded6}}),
		"small beside a link with IPv6": {Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(1), addressed(recorded6)),
			ethernet("uplink1", port(2), infrav1.LinkConfig{MTU: new(int32(1000)), DHCP: infrav1.DHCPFamilyIPv4})}}} {
		if errs := Check(field.NewPath("spec"), data); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs.ToAggregate())
		}
	}
}

// The maximum number of routes in the schema exceeds the length of a claim.
func TestCheckLength(t *testing.T) {
	data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", boot)}}
	for i := range 32 {
		vlan := infrav1.NetworkVLAN{Name: fmt.Sprintf("uplink0.%d", i), Link: "uplink0", ID: int32(i + 1), LinkConfig: addressed(static(fmt.Sprintf("192.0.2.%d/24", i+1)))}
		for j := range 32 {
			vlan.Routes = append(vlan.Routes, infrav1.LinkRoute{To: fmt.Sprintf("10.%d.%d.0/24", i, j), Via: "192.0.2.254", Metric: new(int32(100))})
		}
		data.VLANs = append(data.VLANs, vlan)
	}
	errs := Check(field.NewPath("spec", "networkData"), data)
	if len(errs) != 1 || errs[0].Field != "spec.networkData" || !strings.Contains(errs[0].Detail, "a claim holds 65536") {
		t.Errorf("%v", errs.ToAggregate())
	}
	_, err := Resolve(data, sources())
	if !errors.Is(err, ErrMisfit) || !strings.Contains(err.Error(), "a claim holds 65536") {
		t.Errorf("%v, want a misfit", err)
	}
	data.VLANs = data.VLANs[:16]
	if errs := Check(field.NewPath("spec", "networkData"), data); len(errs) > 0 {
		t.Errorf("half of it: %v", errs.ToAggregate())
	}
}

// No text is longer than its estimate.
func TestLengthEstimateIsUpperBound(t *testing.T) {
	longest := strings.Repeat("d", 253)
	address := static("fd00:ffff:ffff:ffff:ffff:ffff:ffff:ff01/128")
	config := infrav1.LinkConfig{MTU: new(int32(65535)), DHCP: infrav1.DHCPFamilyDualStack, RouterAdvertisements: infrav1.RouterAdvertisementsIgnore,
		SearchDomains: []string{longest}, DNSServers: []string{"fd00:ffff:ffff:ffff:ffff:ffff:ffff:ff02"}, Addresses: []infrav1.LinkAddress{address},
		Routes: []infrav1.LinkRoute{{To: "fd00:ffff:ffff:ffff:ffff:ffff:ffff:ff00/128", Via: "fd00:ffff:ffff:ffff:ffff:ffff:ffff:ff03", Metric: new(int32(2147483647))}}}
	bond := infrav1.NetworkBond{Name: "abcdefghijklmn0", Mode: infrav1.BondLACP, LACPRate: "slow", MinLinks: new(int32(16)), Aggregation: "bandwidth", TransmitHashPolicy: "vlan+srcmac",
		Primary: "abcdefghijklmn1", MonitorMilliseconds: new(int32(2147483647)), UpDelayMilliseconds: new(int32(2147483647)), DownDelayMilliseconds: new(int32(2147483647)), LinkConfig: config}
	for i := range 8 {
		bond.Interfaces = append(bond.Interfaces, fmt.Sprintf("abcdefghijklm%02d", i))
	}
	links := linksOf(&infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("abcdefghijklmn2", boot, config)}, Bonds: []infrav1.NetworkBond{bond},
		VLANs: []infrav1.NetworkVLAN{{Name: "abcdefghijklmn3", Link: "abcdefghijklmn0", ID: 4094, LinkConfig: config}}})
	for _, l := range links {
		l.mac, l.addresses = bootMAC, []netip.Prefix{netip.MustParsePrefix(address.Address)}
		l.routes = []route{{LinkRoute: config.Routes[0]}}
		most := linkBytes + addressBytes + routeBytes + serverBytes + domainBytes
		if l.bond != nil {
			most += bondBytes
		}
		if n := len(Network{links: []link{l}}.Config()); n > most {
			t.Errorf("%s: %d bytes, taken for %d at most:\n%s", l.kind, n, most, Network{links: []link{l}}.Config())
		}
	}
}
