// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// host makes one that has an address, by record or by its claim.
func holding(holders addressuse.Owners, name, recordedIP, claimed string) {
	hardware, host := &infrav1.IngotHardware{}, &infrav1.IngotHost{}
	hardware.Namespace, hardware.Name, host.Namespace, host.Name = "dc1", name, "dc1", name
	if recordedIP != "" {
		hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: rackName, MAC: "52:54:00:00:00:77", IP: recordedIP}
	}
	if claimed != "" {
		host.Spec.Claim = &infrav1.HostClaim{Network: &infrav1.ClaimedNetwork{Addresses: []string{claimed}}}
	}
	holders.Recorded(hardware)
	holders.Claimed(host)
}

// An address in use is refused from any source. Networks that Ingot does not know are not checked.
func TestAddressInUse(t *testing.T) {
	holders := addressuse.Owners{}
	holding(holders, "b01", "10.10.0.77", "10.10.0.78")
	holding(holders, "b02", "", "10.30.7.2")
	holding(holders, "b03", "", "192.0.2.7")
	holding(holders, "a07", "10.10.0.79", "10.10.0.81")
	given := sources()
	given.Holders = holders
	given.Endpoints = addressuse.Endpoints{netip.MustParseAddr("10.10.0.90"): {{Namespace: "dc1", Name: "other"}}, netip.MustParseAddr("192.0.2.7"): {{Namespace: "dc1", Name: "other"}}}
	ranged := networks()
	rack := ranged[rackName]
	rack.Range = infrav1.AddressRange{Start: "10.10.0.100", End: "10.10.0.110"}
	rack.StaticLeases = []infrav1.StaticLease{{MAC: portC, IP: "10.10.0.105"}, {MAC: portA, IP: "10.10.0.120"}}
	rack.Mode, rack.Discover = infrav1.DHCPModeDiscover, &infrav1.NetworkDiscovery{Range: infrav1.AddressRange{Start: "10.10.0.200", End: "10.10.0.209"}}
	ranged[rackName] = rack
	given.Networks = ranged
	for _, tc := range []struct {
		name string
		ask  infrav1.LinkAddress
		nic  infrav1.NICSelector
		want string
	}{
		{"nobody's", static("10.10.0.80/24"), boot, ""},
		{"another Cluster's endpoint", static("10.10.0.90/24"), boot, "10.10.0.90 is the control plane's endpoint of another Cluster"},
		{"recorded for another", static("10.10.0.77/24"), boot, "10.10.0.77 is that of another host"},
		{"another's system has it", static("10.10.0.78/24"), boot, "10.10.0.78 is that of another host"},
		{"reserved anew for this host, and another's system has it", reservation("storage"), port(2), "10.30.7.2 is that of another host"},
		{"on no network of Ingot's", static("192.0.2.7/24"), boot, ""},
		{"recorded for itself", static("10.10.0.20/24"), boot, ""},
		{"its own on another network", static("10.10.0.79/24"), boot, ""},
		{"of its own claim", static("10.10.0.81/24"), boot, ""},
		{"the gateway", static("10.10.0.1/24"), boot, "10.10.0.1 is the address of a router or relay, or of no interface, of IngotNetwork rack-a"},
		{"the gateway of a route", static("10.10.0.4/24"), boot, "10.10.0.4 is the address of a router"},
		{"broadcast, whatever prefix it is given with", static("10.10.0.255/16"), boot, "10.10.0.255 is the address of a router"},
		{"a DNS server, which a machine may be", static("10.10.0.2/24"), boot, ""},
		{"given to hosts", static("10.10.0.110/24"), boot, "10.10.0.110 is in the range that is given to hosts of IngotNetwork rack-a"},
		{"lent", static("10.10.0.200/24"), boot, "10.10.0.200 is in the range that is lent to unknown machines"},
		{"reserved for another", static("10.10.0.120/24"), boot, "10.10.0.120 is reserved for another interface of IngotNetwork rack-a"},
		{"reserved for the interface itself, in the range", static("10.10.0.105/24"), infrav1.NICSelector{MAC: portC}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", tc.nic, addressed(tc.ask))}}
			network, err := Resolve(data, given)
			if tc.want == "" {
				if err != nil || len(network.Addresses()) != 1 {
					t.Errorf("%v, %v", network.Addresses(), err)
				}
				return
			}
			if !errors.Is(err, ErrMisfit) || !errors.Is(err, ErrAddressInUse) || !strings.Contains(err.Error(), "uplink0: addresses[0]: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// Only a control plane may have the endpoint of its own Cluster, and not from a pool. The endpoint of another
// Cluster is only for a host for which it is recorded.
func TestEndpoints(t *testing.T) {
	own, other := types.NamespacedName{Namespace: "dc1", Name: "own"}, types.NamespacedName{Namespace: "dc1", Name: "other"}
	mustBe := netip.MustParseAddr
	given := sources()
	given.IngotCluster = own
	given.Networks = networks()
	rack := given.Networks[rackName]
	rack.StaticLeases = []infrav1.StaticLease{{MAC: portC, IP: "10.10.0.105"}}
	given.Networks[rackName] = rack
	given.Pools = map[Place]Given{{Link: "uplink0", Index: 0}: {Address: netip.MustParsePrefix("10.10.0.91/24"), From: "pool nodes"}}
	onRack := infrav1.LinkAddress{Source: infrav1.AddressStaticLease, NetworkRef: &infrav1.LocalReference{Name: rackName}}
	pooled := infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &infrav1.AddressPoolReference{Name: "nodes"}}
	const theirs, ours = "endpoint of another Cluster", "endpoint of the machine's own Cluster"
	for name, tc := range map[string]struct {
		ask          infrav1.LinkAddress
		nic          infrav1.NICSelector
		address      string // that is the endpoint
		of           []types.NamespacedName
		plane, other string // what a control plane and a worker are told
	}{
		"written":               {static("10.10.0.90/24"), boot, "10.10.0.90", []types.NamespacedName{own}, "", ours},
		"written, elsewhere":    {static("192.0.2.7/24"), boot, "192.0.2.7", []types.NamespacedName{own}, "", ours},
		"reserved":              {onRack, infrav1.NICSelector{MAC: portC}, "10.10.0.105", []types.NamespacedName{own}, "", ours},
		"recorded":              {infrav1.LinkAddress{Source: infrav1.AddressRecorded}, boot, "10.10.0.20", []types.NamespacedName{own}, "", ours},
		"of a pool":             {pooled, boot, "10.10.0.91", []types.NamespacedName{own}, ours, ours},
		"another's, written":    {static("10.10.0.90/24"), boot, "10.10.0.90", []types.NamespacedName{other}, theirs, theirs},
		"another's, of a pool":  {pooled, boot, "10.10.0.91", []types.NamespacedName{other}, theirs, theirs},
		"another's, recorded":   {infrav1.LinkAddress{Source: infrav1.AddressRecorded}, boot, "10.10.0.20", []types.NamespacedName{other}, "", ""},
		"another's, elsewhere":  {static("192.0.2.7/24"), boot, "192.0.2.7", []types.NamespacedName{other}, "", ""},
		"shared with another's": {static("10.10.0.90/24"), boot, "10.10.0.90", []types.NamespacedName{own, other}, theirs, ours},
	} {
		t.Run(name, func(t *testing.T) {
			given := given
			given.Endpoints = addressuse.Endpoints{mustBe(tc.address): tc.of}
			for controlPlane, want := range map[bool]string{true: tc.plane, false: tc.other} {
				given.ControlPlane = controlPlane
				_, err := Resolve(&infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{ethernet("uplink0", tc.nic, addressed(tc.ask))}}, given)
				if want == "" && err != nil || want != "" && (!errors.Is(err, ErrAddressInUse) || !strings.Contains(err.Error(), tc.address+" is the control plane's "+want)) {
					t.Errorf("control plane %t: %v, want %q", controlPlane, err, want)
				}
			}
		})
	}
}

// The possible addresses are known before the host, and their sources afterwards.
func TestCandidatesAndAssigned(t *testing.T) {
	data := bondAndVLAN()
	data.VLANs[0].Addresses = append(data.VLANs[0].Addresses, static("10.10.0.80/24"), static("198.51.100.9/24"))
	around := Surroundings{Networks: networks(), Pools: sources().Pools}
	around.Pools[Place{Link: "bond0.120", Index: 1}] = Given{Address: netip.MustParsePrefix("2001:db8:0:1::7/64")}
	want := []string{"10.10.0.80", "10.30.0.1", "10.30.7.2", "2001:db8:0:1::7"}
	var got []string
	for _, address := range Candidates(data, around) {
		got = append(got, address.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	places := Assigned(data, []string{"10.30.7.2", "10.20.3.7", "2001:db8:0:1::7", "10.10.0.80", "198.51.100.9"})
	assigned := map[Place]netip.Addr{{"bond0", 0}: netip.MustParseAddr("10.30.7.2"), {"bond0.120", 0}: netip.MustParseAddr("10.20.3.7"),
		{"bond0.120", 1}: netip.MustParseAddr("2001:db8:0:1::7"), {"bond0.120", 2}: netip.MustParseAddr("10.10.0.80"), {"bond0.120", 3}: netip.MustParseAddr("198.51.100.9")}
	if diff := cmp.Diff(assigned, places, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
	for name, kept := range map[string][]string{"too few": {"10.30.7.2"}, "too many": {"1", "2", "3", "4", "5", "6"}, "no address": {"10.30.7.2", "x", "y", "z", "w"}} {
		if got := Assigned(data, kept); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	written := StaticAddressesIn(field.NewPath("spec"), data)
	if len(written) != 2 || written[0].Path.String() != "spec.vlans[0].addresses[2].address" || written[1].Address.String() != "198.51.100.9/24" {
		t.Errorf("%v", written)
	}
	if StaticAddressesIn(field.NewPath("spec"), nil) != nil {
		t.Error("something of nothing")
	}
}

// An address of a pool differs from the same address of another pool or in networkData.
func TestIsGivenBy(t *testing.T) {
	data := bondAndVLAN()
	data.VLANs[0].Addresses = append(data.VLANs[0].Addresses, static("198.51.100.9/24"))
	kept := []string{"10.30.7.2", "10.20.3.7", "2001:db8:0:1::7", "198.51.100.9"}
	for _, tc := range []struct {
		name, pool, address string
		data                *infrav1.NetworkData
		kept                []string
		want                bool
	}{
		{"the pool's", "nodes", "10.20.3.7", data, kept, true},
		{"of IPv6", "nodes6", "2001:db8:0:1::7", data, kept, true},
		{"another pool's", "nodes6", "10.20.3.7", data, kept, false},
		{"another of the pool", "nodes", "10.20.3.8", data, kept, false},
		{"reserved", "nodes", "10.30.7.2", data, kept, false},
		{"written", "nodes", "198.51.100.9", data, kept, false},
		{"not of this data", "nodes", "10.20.3.7", data, kept[:2], false},
		{"without data", "nodes", "10.20.3.7", nil, kept, false},
	} {
		if got := IsGivenBy(*pooled(tc.pool).PoolRef, tc.data, tc.kept, netip.MustParseAddr(tc.address)); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

// Only addresses on IngotNetworks are exclusive.
func TestExclusive(t *testing.T) {
	network, err := Resolve(bondAndVLAN(), sources())
	if err != nil {
		t.Fatal(err)
	}
	if got := network.Exclusive(networks()); len(got) != 1 || got[0].String() != "10.30.7.2" {
		t.Errorf("%v of %v", got, network.Addresses())
	}
}
