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

// onNetwork is what all hosts of a network are given alike; false when it has no subnet
// of either family. Of what the schema lets in everything parses; what does not, because it
// is older than the schema, is left out.
func onNetwork(network *infrav1.IngotNetwork) (pxe.Host, bool) {
	spec := &network.Spec
	subnet, err := netip.ParsePrefix(spec.Subnet)
	if _, _, alone := ipv6Of(network); err != nil && (spec.Subnet != "" || !alone) {
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

// addresses parses a list; what is no address is left out.
func addresses(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, address)
		}
	}
	return out
}
