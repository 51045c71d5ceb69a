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

// Endpoints are the addresses by which control planes are reached, with the IngotClusters
// that say so: several may, where a load balancer has a port for each. Most are virtual
// addresses, which are recorded for nobody. Make it with Endpoints{}.
type Endpoints map[netip.Addr][]types.NamespacedName

// ParseEndpoint reads the host of an endpoint; not valid: it is a name, or none yet.
func ParseEndpoint(host string) netip.Addr {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}

// EndpointOf is ParseEndpoint of what a cluster says.
func EndpointOf(cluster *infrav1.IngotCluster) netip.Addr {
	return ParseEndpoint(cluster.Spec.ControlPlaneEndpoint.Host)
}

// Add adds the endpoint of a cluster, if it is an address.
func (e Endpoints) Add(address netip.Addr, cluster types.NamespacedName) {
	if address.IsValid() && !slices.Contains(e[address], cluster) {
		e[address] = append(e[address], cluster)
	}
}

// Kept are those that a network gives to nobody with these MAC addresses: all but what it
// reserves for one of them. A control plane of one server may be reached by that server's
// own address, and to reserve it is to say so.
func (e Endpoints) Kept(network infrav1.IngotNetworkSpec, macs ...string) map[netip.Addr]bool {
	kept := map[netip.Addr]bool{}
	for address := range e {
		kept[address] = true
	}
	for _, r := range network.Reservations {
		if address, err := netip.ParseAddr(r.IP); err == nil && slices.Contains(macs, r.MAC) {
			delete(kept, address)
		}
	}
	return kept
}
