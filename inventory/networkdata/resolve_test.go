// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The texts for systems. accepted_test.go runs cloud-init and netplan on them.
func TestGolden(t *testing.T) {
	for name, data := range goldens() {
		t.Run(name, func(t *testing.T) {
			if errs := Check(field.NewPath("spec", "networkData"), data); len(errs) > 0 {
				t.Errorf("admission would refuse it: %v", errs.ToAggregate())
			}
			network, err := Resolve(data, sources())
			if err != nil {
				t.Fatal(err)
			}
			got := network.Config() + "# addresses: " + strings.Join(network.Addresses(), " ") + "\n"
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
			if again, err := Resolve(data, sources()); err != nil || again.Config() != network.Config() {
				t.Error("the same input gave another text")
			}
		})
	}
}

// The errors describe what the host lacks.
func TestMisfits(t *testing.T) {
	change := func(f func(*infrav1.NetworkData)) *infrav1.NetworkData {
		data := bondAndVLAN()
		f(data)
		return data
	}
	one := func(nic infrav1.NICSelector, config infrav1.LinkConfig) *infrav1.NetworkData {
		return &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", nic, config)}}
	}
	noRecord := sources()
	noRecord.Recorded, noRecord.RecordedIPv6 = nil, nil
	closed := sources()
	closed.Closed = map[string]bool{"storage": true}
	unreachable := sources()
	unreachable.Pools = map[Place]Given{{Link: "uplink0"}: {Address: netip.MustParsePrefix("198.51.100.5/32"), Gateway: netip.MustParseAddr("169.254.0.1"), From: "pool nodes"}}
	for name, tc := range map[string]struct {
		data *infrav1.NetworkData
		from Sources
		want string
	}{
		"no such interface": {one(infrav1.NICSelector{Driver: "bnxt_en", MinSpeedMbps: new(int32(100))}, addressed(recorded)), sources(),
			"networkData.ethernets[0].nic of uplink0: none of 4 interfaces have driver bnxt_en and had a link of 100 Mbit/s or more when inspected"},
		"too few": {one(infrav1.NICSelector{PCI: "0000:3b:00.*", Position: new(int32(3))}, addressed(recorded)), sources(),
			"position 3 of 2 interfaces that have bus address 0000:3b:00.*"},
		"several": {one(infrav1.NICSelector{MinSpeedMbps: new(int32(10000))}, addressed(recorded)), sources(),
			"2 interfaces had a link of 10000 Mbit/s or more when inspected, and no position says which"},
		"the same twice": {change(func(d *infrav1.NetworkData) { d.Ethernets[1].NIC = port(1) }), sources(),
			"networkData.ethernets[1].nic of uplink1: means interface " + portA + " (eth2, 0000:3b:00.0), as uplink0 does"},
		"nothing recorded": {one(boot, addressed(recorded)), noRecord, "uplink0: addresses[0]: no IPv4 address is recorded for the host"},
		"no IPv6 recorded": {one(boot, addressed(recorded6)), noRecord, "no IPv6 address is recorded for the host"},
		"nothing reserved": {one(boot, addressed(reservation("storage"))), sources(), "spec.staticLeases of IngotNetwork storage has none of " + bootMAC},
		"a network of others": {one(port(2), addressed(reservation("storage"))), closed,
			"IngotNetwork storage does not allow the machine's namespace; add it to spec.allowedNamespaces"},
		"no such network":           {one(boot, addressed(reservation("backup"))), sources(), "IngotNetwork backup does not exist"},
		"pool without address":      {one(boot, addressed(pooled("nodes"))), sources(), "its pool has given no address yet"},
		"gateway of a pool":         {change(func(d *infrav1.NetworkData) { d.Bonds[0].LinkConfig = addressed(pooled("astray")); d.VLANs = nil }), sources(), "router 10.99.0.1 (the gateway of pool astray) is in no subnet of the link's addresses"},
		"IPv4 gateway of no subnet": {one(boot, addressed(pooled("nodes"))), unreachable, "router 169.254.0.1 (the gateway of pool nodes) is in no subnet of the link's addresses"},
		"IPv4 gateway that nothing tells of": {one(boot, infrav1.LinkConfig{RouterAdvertisements: infrav1.RouterAdvertisementsAccept, Addresses: []infrav1.LinkAddress{pooled("nodes")}}), unreachable,
			"router 169.254.0.1 (the gateway of pool nodes) is in no subnet of the link's addresses"},
		"router out of reach": {change(func(d *infrav1.NetworkData) { d.VLANs[0].Routes[0].Via = "10.21.0.1" }), sources(), "router 10.21.0.1 (networkData of bond0.120) is in no subnet"},
		"one address two links": {change(func(d *infrav1.NetworkData) {
			d.VLANs[0].Addresses[0] = static("10.30.7.2/22")
			d.VLANs[0].Routes = nil
		}), sources(), "bond0 and bond0.120 both have address 10.30.7.2"},
		"a VLAN's network on a link that takes less": {&infrav1.NetworkData{
			Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(2), addressed(static("192.0.2.15/24")))},
			VLANs:     []infrav1.NetworkVLAN{{Name: "storage", Link: "uplink0", ID: 30, LinkConfig: addressed(reservation("storage"))}},
		}, sources(), "mtu 9000 of storage, in networkData or of a network that it has an address of, does not pass uplink0, which takes 1500: say mtu 9000 of uplink0 in networkData"},
		"a bond's network on members that take less": {change(func(d *infrav1.NetworkData) { d.Ethernets[1].MTU = new(int32(1500)) }), sources(),
			"mtu 9000 of bond0, in networkData or of a network that it has an address of, does not pass uplink1, which takes 1500"},
		"two default routes": {change(func(d *infrav1.NetworkData) {
			d.VLANs[0].Addresses = append(d.VLANs[0].Addresses[:1], recorded)
		}), sources(), "two routes to 0.0.0.0/0, by the gateway of pool nodes and by the gateway of IngotNetwork rack-a: say gateway: Ignore"},
		"a default route beside the gateway asked for": {nodesVLAN(infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{asDefault(pooled("nodes"))},
			Routes: []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.20.0.254"}}}), sources(), "two routes to 0.0.0.0/0, by networkData of bond0.120 and by the gateway of pool nodes: say gateway: Ignore"},
		"a default route of another link": {change(func(d *infrav1.NetworkData) {
			d.Bonds[0].Routes = []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "10.30.0.9"}}
		}), sources(), "two routes to 0.0.0.0/0, by networkData of bond0 and by the gateway of pool nodes"},
		"one destination in two spellings": {change(func(d *infrav1.NetworkData) {
			d.Bonds[0].Addresses = append(d.Bonds[0].Addresses, static("2001:db8:30::5/64"))
			d.Bonds[0].Routes = []infrav1.LinkRoute{{To: "0::0/0", Via: "2001:db8:30::1"}}
		}), sources(), "two routes to ::/0, by networkData of bond0 and by the gateway of pool nodes6"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(tc.data, tc.from)
			if !errors.Is(err, ErrMisfit) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want a misfit with %q", err, tc.want)
			}
		})
	}
}

// A host gets reservations of its boot network even if the network no longer allows its namespace (see
// package networkuse).
func TestReservationOfBootNetwork(t *testing.T) {
	from := sources()
	from.Boots, from.Closed = "storage", map[string]bool{"storage": true}
	data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", port(2), addressed(reservation("storage")))}}
	if _, err := Resolve(data, from); err != nil {
		t.Error(err)
	}
}

// An address that is recorded for another NIC or network is not the host's.
func TestSourcesOf(t *testing.T) {
	for name, change := range map[string]func(*infrav1.IngotHost, *infrav1.IngotHardware){
		"another NIC":     func(h *infrav1.IngotHost, _ *infrav1.IngotHardware) { h.Spec.BootMACAddress = portA },
		"another network": func(h *infrav1.IngotHost, _ *infrav1.IngotHardware) { h.Spec.NetworkRef.Name = "storage" },
		"none":            func(_ *infrav1.IngotHost, hw *infrav1.IngotHardware) { hw.Spec.Address = nil },
		"not its subnet":  func(_ *infrav1.IngotHost, hw *infrav1.IngotHardware) { hw.Spec.Address.IP = "192.0.2.1" },
	} {
		host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
		host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = bootMAC, rackName
		hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: rackName, MAC: bootMAC, IP: "10.10.0.20"}
		change(host, hardware)
		if got := SourcesOf(host, hardware, Surroundings{Networks: networks()}); got.Recorded != nil {
			t.Errorf("%s: %+v", name, got.Recorded)
		}
		if got := SourcesOf(host, nil, Surroundings{Networks: networks()}); got.Recorded != nil || got.Host.NICs != nil {
			t.Errorf("%s, without hardware: %+v", name, got)
		}
	}
}

// On an IPv6-only network all network settings come with the IPv6 address.
func TestSourcesOfIPv6OnlyNetwork(t *testing.T) {
	host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = bootMAC, "six"
	hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "six", MAC: bootMAC, IP: "2001:db8::20"}
	network := infrav1.IngotNetworkSpec{Domain: "dc1.example", MTU: new(int32(9000)),
		IPv6: &infrav1.NetworkIPv6{Subnet: "2001:db8::/64", DNSServers: []string{"2001:db8::53"}}}
	got := SourcesOf(host, hardware, Surroundings{Networks: map[string]infrav1.IngotNetworkSpec{"six": network}})
	want := &Given{Address: netip.MustParsePrefix("2001:db8::20/64"), MTU: 9000, DNSServers: []string{"2001:db8::53"},
		SearchDomains: []string{"dc1.example"}, From: "IngotNetwork six"}
	if diff := cmp.Diff(want, got.RecordedIPv6, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" || got.Recorded != nil {
		t.Errorf("%s; of IPv4 %+v", diff, got.Recorded)
	}
}

func TestPoolPlaces(t *testing.T) {
	want := []PoolPlace{
		{Place{"bond0.120", 0}, *pooled("nodes").PoolRef},
		{Place{"bond0.120", 1}, *pooled("nodes6").PoolRef},
	}
	if diff := cmp.Diff(want, PoolPlaces(bondAndVLAN())); diff != "" {
		t.Error(diff)
	}
	if got := PoolPlaces(nil); got != nil {
		t.Errorf("%v of nothing", got)
	}
}

// Texts that YAML parsers read as other types are quoted.
func TestScalar(t *testing.T) {
	for value, want := range map[any]string{
		"bond0": "bond0", "no": `"no"`, "52:54:00:00:00:10": `"52:54:00:00:00:10"`, "0.0.0.0/0": `"0.0.0.0/0"`, "100": `"100"`,
		"802.3ad": `"802.3ad"`, "layer3+4": `"layer3+4"`, "": `""`, "a: b": `"a: b"`, 9000: "9000", true: "true",
	} {
		if got := scalar(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}

func TestComparePCI(t *testing.T) {
	order := []string{"", "0000:02:00.0", "0000:3b:00.0", "0000:3b:00.1", "0000:af:00.0", "10000:01:00.0"}
	for i := 1; i < len(order); i++ {
		if comparePCI(order[i-1], order[i]) >= 0 || comparePCI(order[i], order[i-1]) <= 0 {
			t.Errorf("%q is not before %q", order[i-1], order[i])
		}
	}
}
