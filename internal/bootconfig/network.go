// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"net/netip"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe"
)

// parseNetwork returns the configuration that all hosts of a network share, or false if it has no
// subnet. Values that do not parse, since they are older than the schema, are left out.
func parseNetwork(network *infrav1.IngotNetwork) (pxe.Host, bool) {
	spec := &network.Spec
	subnet, err := netip.ParsePrefix(spec.Subnet)
	if _, _, hasIPv6 := ipv6Of(network); err != nil && (spec.Subnet != "" || !hasIPv6) {
		return pxe.Host{}, false
	}
	out := pxe.Host{
		Network:   network.Name,
		Subnet:    subnet,
		Relays:    addresses(spec.Relays),
		DNS:       addresses(spec.DNSServers),
		NTP:       addresses(spec.NTPServers),
		Domain:    spec.Domain,
		Search:    spec.SearchDomains,
		MTU:       int(ptr.Deref(spec.MTU, 0)),
		LeaseTime: time.Duration(ptr.Deref(spec.LeaseSeconds, 0)) * time.Second,
	}
	if spec.Mode == infrav1.DHCPModeProxy {
		out.Mode = pxe.Proxy
	}
	out.Gateway, _ = netip.ParseAddr(spec.Gateway)
	for _, route := range spec.Routes {
		destination, destinationErr := netip.ParsePrefix(route.Destination)
		gateway, gatewayErr := netip.ParseAddr(route.Gateway)
		if destinationErr == nil && gatewayErr == nil {
			out.Routes = append(out.Routes, pxe.Route{Destination: destination, Gateway: gateway})
		}
	}
	return out, true
}

// addresses parses addresses, and leaves out invalid ones.
func addresses(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, address)
		}
	}
	return out
}
