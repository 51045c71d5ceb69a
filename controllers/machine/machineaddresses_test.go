// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A machine shows all known addresses of its NICs once, in the order of the sources. Reported
// addresses replace expected ones.
func TestInternalIPs(t *testing.T) {
	on := func(network, ip string) *infrav1.RecordedAddress {
		return &infrav1.RecordedAddress{NetworkName: network, MAC: "52:54:00:00:00:01", IP: ip}
	}
	asks := func(dhcp infrav1.DHCPFamilies) *infrav1.NetworkData {
		data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "a"}, {Name: "b"}}}
		data.Ethernets[1].DHCP = dhcp
		return data
	}
	four, six := on("net", "192.0.2.7"), on("net", "2001:db8::7")
	for name, tc := range map[string]struct {
		data               *infrav1.NetworkData
		assigned, reported []string
		ipv4, ipv6         *infrav1.RecordedAddress
		found              [][]string // by NIC
		want               []string
	}{
		"nothing is known of it":    {},
		"recorded":                  {ipv4: four, want: []string{"192.0.2.7"}},
		"recorded, of both kinds":   {ipv4: four, ipv6: six, want: []string{"192.0.2.7", "2001:db8::7"}},
		"of the network before":     {ipv4: on("before", "192.0.2.7"), ipv6: six, want: []string{"2001:db8::7"}},
		"on networks before, alone": {ipv4: on("before", "192.0.2.7"), ipv6: on("before", "2001:db8::7")},
		"reported":                  {reported: []string{"2001:db8::8"}, ipv4: four, ipv6: six, found: [][]string{{"198.51.100.7"}}, want: []string{"2001:db8::8"}},
		"found on two NICs":         {found: [][]string{{"192.0.2.9"}, nil, {"198.51.100.7", "2001:db8::9"}}, want: []string{"192.0.2.9", "198.51.100.7", "2001:db8::9"}},
		"recorded, and found": {ipv4: four, ipv6: six, found: [][]string{{"192.0.2.7", "2001:db8:0::7"}, {"198.51.100.7"}},
			want: []string{"192.0.2.7", "2001:db8::7", "198.51.100.7"}},
		"assigned": {data: asks(""), assigned: []string{"10.20.3.7"}, ipv4: four, ipv6: six, found: [][]string{{"198.51.100.7"}}, want: []string{"10.20.3.7"}},
		"assigned, and DHCP for IPv4": {data: asks(infrav1.DHCPFamilyIPv4), assigned: []string{"10.20.3.7"}, ipv4: four, ipv6: six,
			want: []string{"10.20.3.7", "192.0.2.7"}},
		"assigned, and DHCP for IPv6": {data: asks(infrav1.DHCPFamilyIPv6), assigned: []string{"10.20.3.7"}, ipv4: four, ipv6: six,
			want: []string{"10.20.3.7", "2001:db8::7"}},
		"DHCP for both":          {data: asks(infrav1.DHCPFamilyDualStack), ipv4: four, ipv6: six, want: []string{"192.0.2.7", "2001:db8::7"}},
		"assigned, and reported": {data: asks(infrav1.DHCPFamilyIPv4), assigned: []string{"10.20.3.7"}, reported: []string{"192.0.2.8", "10.20.3.7"}, ipv4: four, want: []string{"10.20.3.7", "192.0.2.8"}},
	} {
		t.Run(name, func(t *testing.T) {
			host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
			host.Spec.NetworkRef.Name = "net"
			host.Spec.Claim = &infrav1.HostClaim{}
			if tc.assigned != nil {
				host.Spec.Claim.Network = &infrav1.ClaimedNetwork{Addresses: tc.assigned}
			}
			hardware.Spec.Address, hardware.Spec.IPv6Address = tc.ipv4, tc.ipv6
			for _, addresses := range tc.found {
				hardware.Spec.NICs = append(hardware.Spec.NICs, infrav1.HardwareNIC{Addresses: addresses})
			}
			if diff := cmp.Diff(tc.want, internalIPs(host, hardware, tc.data, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The address of the API server is shown only if it is the machine's own.
func TestWithoutEndpoint(t *testing.T) {
	const endpoint, six = "192.0.2.50", "2001:db8::50"
	for name, tc := range map[string]struct {
		endpoint, ipv4, ipv6 string
		reported, want       []string
	}{
		"a virtual address and its own": {endpoint, "192.0.2.7", "", []string{endpoint, "192.0.2.7"}, []string{"192.0.2.7"}},
		"no virtual address":            {endpoint, "192.0.2.7", "", []string{"192.0.2.7", "192.0.2.8"}, []string{"192.0.2.7", "192.0.2.8"}},
		"the one recorded for its host": {endpoint, endpoint, "", []string{endpoint, "192.0.2.8"}, []string{endpoint, "192.0.2.8"}},
		"the only one":                  {endpoint, "", "", []string{endpoint}, []string{endpoint}},
		"nothing reported":              {endpoint, "192.0.2.7", "", nil, nil},
		"a virtual IPv6 address":        {six, "", "2001:db8::7", []string{six, "2001:db8::7"}, []string{"2001:db8::7"}},
		"one written another way":       {"2001:DB8:0::0050", "", "2001:db8::7", []string{six, "2001:db8::7"}, []string{"2001:db8::7"}},
		"the IPv6 one recorded for its host, and SLAAC": {six, "", six, []string{six, "2001:db8::5054:ff:fe00:1"},
			[]string{six, "2001:db8::5054:ff:fe00:1"}},
		"the same, written another way": {"2001:DB8::0050", "192.0.2.7", six, []string{six, "2001:db8::8"}, []string{six, "2001:db8::8"}},
		"a name":                        {"api.example.com", "192.0.2.7", "", []string{endpoint, "192.0.2.7"}, []string{endpoint, "192.0.2.7"}},
		"none yet":                      {"", "", "", []string{"192.0.2.7"}, []string{"192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, hardware := &clusterv1.Cluster{}, &infrav1.IngotHardware{}
			cluster.Spec.ControlPlaneEndpoint.Host = tc.endpoint
			if tc.ipv4 != "" {
				hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", IP: tc.ipv4}
			}
			if tc.ipv6 != "" {
				hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "net", IP: tc.ipv6}
			}
			if diff := cmp.Diff(tc.want, withoutEndpoint(cluster, hardware, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Pod and Service addresses are not shown, unless the servers are in these networks.
func TestWithoutPods(t *testing.T) {
	for name, tc := range map[string]struct {
		pods, services, known, reported, want []string
	}{
		"Pods and Services": {[]string{"10.244.0.0/16"}, []string{"10.96.0.0/12"}, []string{"192.0.2.7"},
			[]string{"10.96.0.1", "10.244.1.1", "192.0.2.7", "198.51.100.7"}, []string{"192.0.2.7", "198.51.100.7"}},
		"of both families": {[]string{"10.244.0.0/16", "fd00:10::/56"}, []string{"10.96.0.0/12", "fd00:20::/108"}, nil,
			[]string{"10.244.1.1", "192.0.2.7", "2001:db8::7", "fd00:10::1", "fd00:20::a"}, []string{"192.0.2.7", "2001:db8::7"}},
		"Pods among the servers": {[]string{"10.0.0.0/8"}, []string{"172.20.0.0/16"}, []string{"10.1.0.7"},
			[]string{"10.1.0.7", "172.20.0.1", "198.51.100.7"}, []string{"10.1.0.7", "198.51.100.7"}},
		"the same, nothing known": {[]string{"10.0.0.0/8"}, nil, nil, []string{"10.1.0.7", "10.1.0.8"}, []string{"10.1.0.7", "10.1.0.8"}},
		"of one family all would go": {[]string{"10.0.0.0/8", "fd00:10::/56"}, nil, nil,
			[]string{"10.1.0.7", "2001:db8::7", "fd00:10::1"}, []string{"10.1.0.7", "2001:db8::7"}},
		"no networks":       {nil, nil, nil, []string{"10.244.1.1", "192.0.2.7"}, []string{"10.244.1.1", "192.0.2.7"}},
		"not networks":      {[]string{"10.244.0.0"}, []string{""}, []string{"host"}, []string{"10.244.1.1", "192.0.2.7"}, []string{"10.244.1.1", "192.0.2.7"}},
		"nothing reported":  {[]string{"10.244.0.0/16"}, nil, []string{"192.0.2.7"}, nil, nil},
		"host bits are set": {[]string{"10.244.7.7/16"}, nil, nil, []string{"10.244.1.1", "192.0.2.7"}, []string{"192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, cluster.Spec.ClusterNetwork.Services.CIDRBlocks = tc.pods, tc.services
			if diff := cmp.Diff(tc.want, withoutPods(cluster, tc.known, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Recorded and assigned addresses are the host's, and a virtual IP that is the only address next to
// Pod addresses stays.
func TestAddressesOfALateReport(t *testing.T) {
	cluster := &clusterv1.Cluster{}
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.0.0.0/8"}
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"172.20.0.0/16"}
	cluster.Spec.ControlPlaneEndpoint.Host = "192.0.2.50"
	for name, tc := range map[string]struct {
		assigned       []string
		recorded       *infrav1.RecordedAddress
		reported, want []string
	}{
		"recorded among Pods":                 {nil, &infrav1.RecordedAddress{NetworkName: "net", IP: "10.1.0.7"}, []string{"10.1.0.7", "172.20.0.1", "192.0.2.50"}, []string{"10.1.0.7"}},
		"assigned among Pods":                 {[]string{"10.1.0.7"}, nil, []string{"10.1.0.7", "10.1.0.8", "172.20.0.1"}, []string{"10.1.0.7", "10.1.0.8"}},
		"a virtual address and Pods":          {nil, nil, []string{"10.244.1.1", "192.0.2.50"}, []string{"192.0.2.50"}},
		"its own, a virtual one, and a Pods'": {nil, nil, []string{"10.244.1.1", "192.0.2.7", "192.0.2.50"}, []string{"192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
			host.Spec.Claim = &infrav1.HostClaim{}
			if tc.assigned != nil {
				host.Spec.Claim.Network = &infrav1.ClaimedNetwork{Addresses: tc.assigned}
			}
			hardware.Spec.Address = tc.recorded
			if diff := cmp.Diff(tc.want, ownAddresses(cluster, host, hardware, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
