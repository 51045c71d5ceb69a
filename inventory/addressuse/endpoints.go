// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Endpoints has the addresses of control planes and their IngotClusters. Several clusters may
// share a load balancer's address with different ports. Most addresses are virtual and not
// recorded for a host. Create it with Endpoints{}.
type Endpoints map[netip.Addr][]types.NamespacedName

// ParseEndpoint parses the host of an endpoint. Invalid: it is a name or empty.
func ParseEndpoint(host string) netip.Addr {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}

// EndpointOf is ParseEndpoint of a cluster's endpoint.
func EndpointOf(cluster *infrav1.IngotCluster) netip.Addr {
	return ParseEndpoint(cluster.Spec.ControlPlaneEndpoint.Host)
}

// Add adds the endpoint of a cluster, if it is an address.
func (e Endpoints) Add(address netip.Addr, cluster types.NamespacedName) {
	if address.IsValid() && !slices.Contains(e[address], cluster) {
		e[address] = append(e[address], cluster)
	}
}

// Kept returns the endpoints that a network may not assign to these MAC addresses: all except
// those that it reserves for one of them. A control plane of one server may use that server's
// address as its endpoint, if it is reserved.
func (e Endpoints) Kept(network infrav1.IngotNetworkSpec, macs ...string) map[netip.Addr]bool {
	kept := map[netip.Addr]bool{}
	for address := range e {
		kept[address] = true
	}
	for _, r := range network.StaticLeases {
		if address, err := netip.ParseAddr(r.IP); err == nil && slices.Contains(macs, r.MAC) {
			delete(kept, address)
		}
	}
	return kept
}
