// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// Given is an address with what comes with it.
type Given struct {
	// Address and its prefix length.
	Address netip.Prefix
	// Gateway is invalid where there is none.
	Gateway netip.Addr
	// MTU in bytes; 0: not said.
	MTU                       int32
	DNSServers, SearchDomains []string
	Routes                    []infrav1.LinkRoute
	// From says for people where it comes from.
	From string
}

// Place is where in networkData an address is asked for.
type Place struct {
	Link  string
	Index int
}

// PoolPlace is an address of a pool that is asked for.
type PoolPlace struct {
	Place
	Pool infrav1.AddressPoolReference
}

// PoolPlaces are the addresses that pools are to give, in their order.
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

// Surroundings is what networks are made of beside the host.
type Surroundings struct {
	// Networks by their names: what they reserve, and what they keep addresses for.
	Networks map[string]infrav1.IngotNetworkSpec
	// Closed names the networks that do not allow the machine's namespace. Their
	// reservations are given on hosts alone that boot on the network. nil: all allow it.
	Closed map[string]bool
	// Pools are what pools have given.
	Pools map[Place]Given
	// Holders are who has which of the addresses that may be given (see Candidates).
	Holders addressuse.Holders
	// Endpoints are those of control planes: virtual addresses mostly, which nobody has
	// recorded. IngotCluster is the machine's own, and ControlPlane says whether the machine
	// is one of those that are reached by its endpoint.
	Endpoints    addressuse.Endpoints
	IngotCluster types.NamespacedName
	ControlPlane bool
}

// Sources are all that a network is made of.
type Sources struct {
	Surroundings
	Host Host
	// Boots is the network that the host boots on.
	Boots string
	// Recorded and RecordedIPv6 are what is recorded for the host; nil: nothing is.
	Recorded, RecordedIPv6 *Given
}

// SourcesOf gathers what is known of a host. hardware may be nil.
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

// onNetwork is an IPv4 address with what DHCP would tell beside it; nil where subnet or
// address do not parse.
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

// onIPv6Network is an IPv6 address; routers tell of themselves. The MTU comes with it
// where there is no IPv4 address that it could come with.
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

// searchOf is where names are looked up: as DHCP tells it, the domain where no list is.
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

// reservationFor is the address that a network keeps for one of the interfaces.
func reservationFor(network infrav1.IngotNetworkSpec, macs []string) (ip string, found bool) {
	for _, mac := range macs {
		for _, r := range network.Reservations {
			if r.MAC == mac {
				return r.IP, true
			}
		}
	}
	return "", false
}
