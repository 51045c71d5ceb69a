// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxConfig is the maximum length of the text in bytes, as in spec.claim.network.config of an
// IngotHost.
const MaxConfig = 65536

// The maximum bytes for the parts of the text, with indentation: a link without its lists, its
// bond, an address, a route with metric, a DNS server, a search domain.
const (
	linkBytes    = 512
	bondBytes    = 512
	addressBytes = 64
	routeBytes   = 160
	serverBytes  = 64
	domainBytes  = 288
)

// length returns the length of the text in bytes, or 0 if it is at most MaxConfig. It renders
// only texts that may be too long, since thousands of hosts are checked.
func (n Network) length() int {
	most := 0
	for _, l := range n.links {
		most += linkBytes + addressBytes*len(l.addresses) + routeBytes*len(l.routes) + serverBytes*len(l.config.DNSServers) + domainBytes*len(l.config.SearchDomains)
		if l.bond != nil {
			most += bondBytes
		}
	}
	if most <= MaxConfig {
		return 0
	}
	if exactly := len(n.Config()); exactly > MaxConfig {
		return exactly
	}
	return 0
}

// length refuses data whose text is too long on any host.
func (c *checker) length(path *field.Path) {
	if len(c.errs) > 0 {
		return
	}
	links := slices.Clone(c.links)
	for i := range links {
		for _, r := range links[i].config.Routes {
			links[i].routes = append(links[i].routes, route{LinkRoute: r})
		}
	}
	if n := (Network{links: links}).length(); n > 0 {
		c.refuse(path, fmt.Sprintf("%d links", len(links)), "%s", tooLong(n))
	}
}

func tooLong(n int) string {
	return fmt.Sprintf("the network configuration comes to %d bytes, and a claim holds %d; leave out routes, or give routers a routing protocol", n, MaxConfig)
}
