// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage_test

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/networkdata"
	"github.com/ingot-metal/ingot/lab/qemu"
)

// cards are network cards of a server, the first of which it would boot from.
func cards(count int) []qemu.NIC {
	out := make([]qemu.NIC, count)
	for i := range out {
		out[i].MAC = net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, byte(0x56 + i)}
	}
	return out
}

// reachable is the address by which the server reaches the sink. It has a name server,
// though none answers: CoreDNS does not start without one to forward to ("no nameservers
// found").
func reachable() infrav1.LinkConfig {
	return infrav1.LinkConfig{
		Addresses:  []infrav1.LinkAddress{{Source: infrav1.AddressStatic, Address: "192.0.2.17/24"}},
		Routes:     []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "192.0.2.1"}},
		DNSServers: []string{"192.0.2.1"}, RouterAdvertisements: infrav1.RouterAdvertisementsIgnore,
	}
}

// plainNetwork is one card.
func plainNetwork() infrav1.NetworkData {
	return infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}, LinkConfig: reachable()}}}
}

var (
	plainLinks  = map[string]string{"uplink0": "mtu 1500 192.0.2.17/24"}
	bondedLinks = map[string]string{
		"uplink0": "mtu 1500 of bond0", "uplink1": "mtu 1500 of bond0",
		"bond0":   "mtu 1500 bond active-backup 192.0.2.17/24",
		"storage": "mtu 1400 vlan 20 on bond0 198.51.100.17/24",
	}
)

// bondedNetwork is a bond of two cards, and a VLAN on it.
func bondedNetwork() infrav1.NetworkData {
	second := cards(2)[1].MAC.String()
	return infrav1.NetworkData{
		Ethernets: []infrav1.NetworkEthernet{
			{Name: "uplink0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}},
			{Name: "uplink1", NIC: infrav1.NICSelector{MAC: second}},
		},
		Bonds: []infrav1.NetworkBond{{Name: "bond0", Interfaces: []string{"uplink0", "uplink1"}, Mode: infrav1.BondActiveBackup, LinkConfig: reachable()}},
		VLANs: []infrav1.NetworkVLAN{{Name: "storage", Link: "bond0", ID: 20, LinkConfig: infrav1.LinkConfig{
			MTU: new(int32(1400)), RouterAdvertisements: infrav1.RouterAdvertisementsIgnore,
			Addresses: []infrav1.LinkAddress{{Source: infrav1.AddressStatic, Address: "198.51.100.17/24"}}}}},
	}
}

// networkConfig is what data comes to on the server with these cards.
func networkConfig(t *testing.T, data *infrav1.NetworkData) string {
	t.Helper()
	var host networkdata.Host
	for _, card := range cards(len(data.Ethernets)) {
		host.NICs = append(host.NICs, infrav1.HardwareNIC{MAC: card.MAC.String()})
	}
	host.BootMAC = host.NICs[0].MAC
	resolved, err := networkdata.Resolve(data, networkdata.Sources{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Config()
}

// checkNetwork: the links of the server are those, by what `ip` says of each in words.
func checkNetwork(t *testing.T, s *sink, want map[string]string) {
	t.Helper()
	var links []struct {
		Name     string `json:"ifname"`
		Below    string `json:"link"`
		Master   string
		MTU      int
		LinkInfo struct {
			Kind string `json:"info_kind"`
			Data struct {
				Mode string
				ID   int
			} `json:"info_data"`
		}
		Addresses []struct {
			Family, Local string
			Length        int `json:"prefixlen"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(<-s.received["network"], &links); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range links {
		text := fmt.Sprintf("mtu %d", l.MTU)
		switch {
		case l.Master != "":
			text += " of " + l.Master
		case l.LinkInfo.Kind == "bond":
			text += " bond " + l.LinkInfo.Data.Mode
		case l.LinkInfo.Kind == "vlan":
			text += fmt.Sprintf(" vlan %d on %s", l.LinkInfo.Data.ID, l.Below)
		}
		for _, a := range l.Addresses {
			if a.Family == "inet" && a.Length < 32 { // not what kube-vip adds
				text += fmt.Sprintf(" %s/%d", a.Local, a.Length)
			}
		}
		got[l.Name] = text
	}
	delete(got, "lo")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
