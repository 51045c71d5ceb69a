// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"net/netip"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// addressesOf lists the machine's names and addresses (M19, M20). reported are the addresses
// that its system reports, without those of the Cluster.
func addressesOf(s *scope, hardware *infrav1.IngotHardware, reported []string) []clusterv1.MachineAddress {
	name := s.host.Spec.Claim.Hostname
	addresses := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: name},
		{Type: clusterv1.MachineInternalDNS, Address: name},
	}
	for _, ip := range internalIPs(s.host, hardware, s.machine.Spec.NetworkData, reported) {
		addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip})
	}
	return addresses
}

// internalIPs lists all known addresses of the machine's NICs without duplicates, in this order:
//
//  1. addresses that networkData assigned
//  2. recorded DHCP addresses of the boot NIC
//  3. addresses that the installed system reports
//  4. addresses that the agent had
//
// After the system's report, 2 and 4 are omitted. A system with networkData uses DHCP only if
// networkData enables it, and never has addresses of the agent.
func internalIPs(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, data *infrav1.NetworkData, reported []string) []string {
	var known []string
	if network := host.Spec.Claim.Network; network != nil {
		known = append(known, network.Addresses...)
	}
	if len(reported) == 0 {
		known = append(known, dhcpAddresses(host, hardware, data)...)
	}
	known = append(known, reported...)
	if len(reported) == 0 && data == nil {
		for _, nic := range hardware.Spec.NICs {
			known = append(known, nic.Addresses...)
		}
	}
	return withoutDuplicates(known)
}

// dhcpAddresses lists the addresses recorded for the boot NIC on the host's network, of the
// families for which the system uses DHCP.
func dhcpAddresses(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, data *infrav1.NetworkData) []string {
	ipv4, ipv6 := true, true
	if data != nil {
		ipv4, ipv6 = networkdata.UsesDHCP(data)
	}
	var ips []string
	for _, family := range []struct {
		recorded *infrav1.RecordedAddress
		enabled  bool
	}{{hardware.Spec.Address, ipv4}, {hardware.Spec.IPv6Address, ipv6}} {
		if family.enabled && family.recorded != nil && family.recorded.NetworkName == host.Spec.NetworkRef.Name {
			ips = append(ips, family.recorded.IP)
		}
	}
	return ips
}

// withoutDuplicates removes repeated addresses, also those in another notation.
func withoutDuplicates(texts []string) []string {
	var out []string
	seen := map[netip.Addr]bool{}
	for _, text := range texts {
		ip := addressOf(text)
		if ip.IsValid() && seen[ip] {
			continue
		}
		seen[ip] = true
		out = append(out, text)
	}
	return out
}

// ownAddresses removes the Cluster's addresses from a system's report, which may come days after
// the first boot. Pods are removed first: next to Pod addresses alone, the endpoint would look
// like the machine's only address.
func ownAddresses(cluster *clusterv1.Cluster, host *infrav1.IngotHost, hardware *infrav1.IngotHardware, reported []string) []string {
	known := recordedIPs(hardware)
	if network := host.Spec.Claim.Network; network != nil {
		known = append(known, network.Addresses...)
	}
	return withoutEndpoint(cluster, hardware, withoutPods(cluster, known, reported))
}

// withoutPods removes addresses in the Cluster's Pod and Service networks, as CNI and IPVS
// interfaces have. Some sites have Pods in the servers' own network: a network with a known
// address of the host is ignored, and if all addresses of a family would be removed, all stay.
func withoutPods(cluster *clusterv1.Cluster, known, reported []string) []string {
	network := cluster.Spec.ClusterNetwork
	var ranges []netip.Prefix
	for _, text := range slices.Concat(network.Pods.CIDRBlocks, network.Services.CIDRBlocks) {
		prefix, err := netip.ParsePrefix(text)
		if err == nil && !slices.ContainsFunc(known, func(text string) bool { return prefix.Contains(addressOf(text)) }) {
			ranges = append(ranges, prefix)
		}
	}
	within := func(ip netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	hasOther := map[bool]bool{} // by Is4
	for _, text := range reported {
		if ip := addressOf(text); !within(ip) {
			hasOther[ip.Is4()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(reported), func(text string) bool {
		ip := addressOf(text)
		return within(ip) && hasOther[ip.Is4()]
	})
}

// addressOf parses an address. The zero Addr for an invalid text is in no network.
func addressOf(text string) netip.Addr {
	ip, _ := netip.ParseAddr(text)
	return ip.Unmap()
}

// withoutEndpoint removes the address of the Cluster's API server, which the system of the first
// control plane reports if kube-vip or keepalived assigned it. That address moves, and two
// machines must not have the same one. It stays if it is the machine's own: recorded for its
// host, or its only address.
func withoutEndpoint(cluster *clusterv1.Cluster, hardware *infrav1.IngotHardware, reported []string) []string {
	endpoint := addressOf(cluster.Spec.ControlPlaneEndpoint.Host)
	isEndpoint := func(text string) bool { return addressOf(text) == endpoint }
	if !endpoint.IsValid() || slices.ContainsFunc(recordedIPs(hardware), isEndpoint) {
		return reported
	}
	own := slices.DeleteFunc(slices.Clone(reported), isEndpoint)
	if len(own) == 0 {
		return reported
	}
	return own
}
