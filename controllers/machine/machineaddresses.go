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

// addressesOf lists the machine's addresses (M19, M20): its name, and the addresses of its
// NICs. reported is what its system reports, without what belongs to the Cluster.
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

// internalIPs lists all known addresses of the machine's NICs, each once, in this order:
//
//  1. what networkData assigned
//  2. what DHCP gives the boot NIC, by record
//  3. what the installed system reports
//  4. what the agent had on the NICs
//
// A system that has reported has no other address than these and those assigned: 2 and 4 are
// then left out. A system with networkData asks DHCP only where that says so, and has nothing
// of the agent's (decision 0357).
func internalIPs(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, data *infrav1.NetworkData, reported []string) []string {
	var known []string
	if network := host.Spec.Claim.Network; network != nil {
		known = append(known, network.Addresses...)
	}
	if len(reported) == 0 {
		known = append(known, recorded(host, hardware, data)...)
	}
	known = append(known, reported...)
	if len(reported) == 0 && data == nil {
		for _, nic := range hardware.Spec.NICs {
			known = append(known, nic.Addresses...)
		}
	}
	return eachOnce(known)
}

// recorded lists the addresses that DHCP of the host's network has for the boot NIC, of the
// families for which the system asks.
func recorded(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, data *infrav1.NetworkData) []string {
	ipv4, ipv6 := true, true
	if data != nil {
		ipv4, ipv6 = networkdata.AsksDHCP(data)
	}
	var ips []string
	for _, of := range []struct {
		entry *infrav1.RecordedAddress
		asks  bool
	}{{hardware.Spec.Address, ipv4}, {hardware.Spec.IPv6Address, ipv6}} {
		if of.asks && of.entry != nil && of.entry.NetworkName == host.Spec.NetworkRef.Name {
			ips = append(ips, of.entry.IP)
		}
	}
	return ips
}

// eachOnce leaves out addresses that stand before, however they are written.
func eachOnce(texts []string) []string {
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

// machineOwn is what a system reports without what belongs to its Cluster: the report may
// come days after the first boot, when the manager was away. Pods go first: beside them
// alone the endpoint's address is the only one that there is.
func machineOwn(cluster *clusterv1.Cluster, host *infrav1.IngotHost, hardware *infrav1.IngotHardware, reported []string) []string {
	var known []string
	if network := host.Spec.Claim.Network; network != nil {
		known = append(known, network.Addresses...)
	}
	for _, recorded := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if recorded != nil {
			known = append(known, recorded.IP)
		}
	}
	return withoutEndpoint(cluster, hardware, withoutPods(cluster, known, reported))
}

// withoutPods leaves out what lies in the Cluster's networks of Pods and Services, as the
// interfaces of a CNI and of IPVS do. Some sites have their Pods in the servers' own
// network: one that holds an address known to be the host's counts for nothing, and where
// all addresses of a family would go, they stay.
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
	stays := map[bool]bool{} // whether one of IPv4, and one of IPv6, does
	for _, text := range reported {
		if ip := addressOf(text); !within(ip) {
			stays[ip.Is4()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(reported), func(text string) bool {
		ip := addressOf(text)
		return within(ip) && stays[ip.Is4()]
	})
}

// addressOf is in no network where the text is no address.
func addressOf(text string) netip.Addr {
	ip, _ := netip.ParseAddr(text)
	return ip.Unmap()
}

// withoutEndpoint leaves out the address of the Cluster's API server, which the system of
// a first control plane reports where kube-vip or keepalived gave it to it: it moves, and
// two machines must not have one address. It stays where it is the machine's own: one
// recorded for its host, or the only one that it has. Addresses are compared, not texts:
// people write IPv6 ones in more than one way.
func withoutEndpoint(cluster *clusterv1.Cluster, hardware *infrav1.IngotHardware, reported []string) []string {
	endpoint, err := netip.ParseAddr(cluster.Spec.ControlPlaneEndpoint.Host)
	if err != nil { // a name, or none yet
		return reported
	}
	is := func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Unmap() == endpoint.Unmap()
	}
	for _, recorded := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if recorded != nil && is(recorded.IP) {
			return reported
		}
	}
	own := slices.DeleteFunc(slices.Clone(reported), is)
	if len(own) == 0 {
		return reported
	}
	return own
}
