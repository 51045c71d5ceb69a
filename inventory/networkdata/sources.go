// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// Given is an address and what comes with it.
type Given struct {
	// Address and its prefix length.
	Address netip.Prefix
	// Gateway is invalid if there is none.
	Gateway netip.Addr
	// MTU in bytes. 0: not known.
	MTU                       int32
	DNSServers, SearchDomains []string
	Routes                    []infrav1.LinkRoute
	// From describes the source.
	From string
}

// Place is the place of an address in networkData.
type Place struct {
	Link  string
	Index int
}

// PoolPlace is the place of an address of a pool.
type PoolPlace struct {
	Place
	Pool infrav1.AddressPoolReference
}

// PoolPlaces returns the places of addresses of pools, in order.
func PoolPlaces(data *infrav1.NetworkData) []PoolPlace {
	var places []PoolPlace
	for _, l := range linksOf(data) {
		for i, address := range l.config.Addresses {
			if address.Source == infrav1.AddressPool && address.PoolRef != nil {
				places = append(places, PoolPlace{Place: Place{Link: l.name, Index: i}, Pool: *address.PoolRef})
			}
		}
	}
	return places
}

// Surroundings is what Resolve needs in addition to the host.
type Surroundings struct {
	// Networks by name.
	Networks map[string]infrav1.IngotNetworkSpec
	// Closed has the networks that do not allow the machine's namespace. Their reservations
	// are only for hosts that boot on the network. Nil: all allow it.
	Closed map[string]bool
	// Pools has the addresses of pools.
	Pools map[Place]Given
	// Holders are the hosts that have the addresses of Candidates.
	Holders addressuse.Owners
	// Endpoints are those of control planes, mostly virtual addresses that are not recorded.
	// IngotCluster is the machine's own. ControlPlane: the machine is a control plane.
	Endpoints    addressuse.Endpoints
	IngotCluster types.NamespacedName
	ControlPlane bool
}

// Sources is the input of Resolve.
type Sources struct {
	Surroundings
	Host Host
	// Boots is the network that the host boots on.
	Boots string
	// Recorded and RecordedIPv6 are the recorded addresses of the host. Nil: none.
	Recorded, RecordedIPv6 *Given
}

// SourcesOf returns the sources for a host. hardware may be nil.
func SourcesOf(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, around Surroundings) Sources {
	out := Sources{Surroundings: around, Boots: host.Spec.NetworkRef.Name, Host: Host{
		Key: types.NamespacedName{Namespace: host.Namespace, Name: host.Name}, BootMAC: host.Spec.BootMACAddress}}
	if hardware == nil {
		return out
	}
	out.Host.NICs = hardware.Spec.NICs
	name := host.Spec.NetworkRef.Name
	network, found := around.Networks[name]
	if !found {
		return out
	}
	counts := func(entry *infrav1.RecordedAddress) bool {
		return entry != nil && entry.NetworkName == name && entry.MAC == host.Spec.BootMACAddress
	}
	if entry := hardware.Spec.Address; counts(entry) {
		out.Recorded = onNetwork(name, network, entry.IP)
	}
	if entry := hardware.Spec.IPv6Address; counts(entry) && network.IPv6 != nil {
		out.RecordedIPv6 = onIPv6Network(name, network, entry.IP)
	}
	return out
}

// onNetwork returns an IPv4 address with what DHCP would send with it. Nil: subnet or address do
// not parse.
func onNetwork(name string, network infrav1.IngotNetworkSpec, ip string) *Given {
	prefix, ok := within(network.Subnet, ip)
	if !ok {
		return nil
	}
	given := &Given{Address: prefix, DNSServers: network.DNSServers, SearchDomains: searchOf(network), From: "IngotNetwork " + name}
	given.Gateway, _ = netip.ParseAddr(network.Gateway)
	if network.MTU != nil {
		given.MTU = *network.MTU
	}
	for _, route := range network.Routes {
		given.Routes = append(given.Routes, infrav1.LinkRoute{To: route.Destination, Via: route.Gateway})
	}
	return given
}

// onIPv6Network returns an IPv6 address without gateway, since routers announce themselves. It has
// the MTU only if the network has no IPv4 subnet.
func onIPv6Network(name string, network infrav1.IngotNetworkSpec, ip string) *Given {
	prefix, ok := within(network.IPv6.Subnet, ip)
	if !ok {
		return nil
	}
	given := &Given{Address: prefix, DNSServers: network.IPv6.DNSServers, SearchDomains: searchOf(network), From: "IngotNetwork " + name}
	if network.Subnet == "" && network.MTU != nil {
		given.MTU = *network.MTU
	}
	return given
}

// searchOf returns the search domains as DHCP sends them: without a list, the domain.
func searchOf(network infrav1.IngotNetworkSpec) []string {
	if len(network.SearchDomains) == 0 && network.Domain != "" {
		return []string{network.Domain}
	}
	return network.SearchDomains
}

func within(subnet, ip string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(subnet)
	address, addressErr := netip.ParseAddr(ip)
	if err != nil || addressErr != nil || !prefix.Contains(address) {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, prefix.Bits()), true
}

// reservationFor returns the address that a network reserves for one of the interfaces.
func reservationFor(network infrav1.IngotNetworkSpec, macs []string) (ip string, found bool) {
	for _, mac := range macs {
		for _, r := range network.StaticLeases {
			if r.MAC == mac {
				return r.IP, true
			}
		}
	}
	return "", false
}
