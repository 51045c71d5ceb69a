// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// maxEndpoints limits how many endpoints one warning names.
const maxEndpoints = 3

// Endpoint warns about the host of a control plane endpoint that an IngotNetwork assigns or
// reserves, or that a host already has. path is the path of the endpoint's host. The warning names
// only hosts of the namespace: the author of the cluster may not know the others.
func (c Checker) Endpoint(ctx context.Context, namespace string, path *field.Path, host string) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	address := addressuse.ParseEndpoint(host)
	networks := &v1beta2.IngotNetworkList{}
	if !address.IsValid() || c.Reader.List(ctx, networks, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var out []string
	for i := range networks.Items {
		network := &networks.Items[i]
		switch use := addressuse.Of(network.Spec, address); use {
		case addressuse.InRange, addressuse.InDiscoveryRange:
			out = append(out, fmt.Sprintf("%s: %q is %s of IngotNetwork %s; use another address, or make that range smaller. Ingot no longer assigns this address to hosts",
				path, host, use, network.Name))
		case addressuse.Reserved:
			out = append(out, fmt.Sprintf("%s: %q is reserved for an interface by IngotNetwork %s; use another address, unless that server is the only control plane",
				path, host, network.Name))
		}
	}
	slices.Sort(out) // for a stable message
	held, err := index.OwnersOf(ctx, c.Reader, address)
	if others := held.OwnersExcept(address, client.ObjectKey{}); err == nil && len(others) > 0 {
		out = append(out, fmt.Sprintf("%s: %q is already an address of %s; use another address, "+
			"or delete that IngotHost and register it again, unless it is the only control plane or a load balancer",
			path, host, inventory.ListHosts(namespace, others)))
	}
	return out
}

// endpoints warns about control plane endpoints in the ranges or reservations of a network. The
// warning does not name their clusters, because a network belongs to all namespaces.
func (c Checker) endpoints(ctx context.Context, network *v1beta2.IngotNetwork) []string {
	all, err := index.Endpoints(ctx, c.Reader)
	if err != nil {
		return nil
	}
	in := map[string][]netip.Addr{}
	for _, address := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		if at := fieldWith(network.Spec, address); at != "" {
			in[at] = append(in[at], address)
		}
	}
	var out []string
	for _, at := range slices.Sorted(maps.Keys(in)) {
		remedy := "make it smaller (Ingot does not assign these addresses)"
		if at == reservations {
			remedy = "reserve another address, unless that server is the only control plane"
		}
		out = append(out, fmt.Sprintf("%s: contains the control plane endpoints %s (see: kubectl get ingotclusters -A); %s%s", at, list(in[at]), remedy, c.holders(ctx, in[at])))
	}
	return out
}

const reservations = "spec.staticLeases"

// fieldWith returns the field of a network that assigns or reserves an address, or "".
func fieldWith(network v1beta2.IngotNetworkSpec, address netip.Addr) string {
	switch use := addressuse.Of(network, address); {
	case use == addressuse.InRange && address.Is4():
		return "spec.range"
	case use == addressuse.InRange:
		return "spec.ipv6.range"
	case use == addressuse.InDiscoveryRange:
		return "spec.discover.range"
	case use == addressuse.Reserved:
		return reservations
	}
	return ""
}

// holders returns a sentence about those addresses that hosts already have, or "".
func (c Checker) holders(ctx context.Context, addresses []netip.Addr) string {
	held, err := index.OwnersOf(ctx, c.Reader, addresses...)
	if err != nil || len(held) == 0 {
		return ""
	}
	has := slices.DeleteFunc(slices.Clone(addresses), func(address netip.Addr) bool { return len(held[address]) == 0 })
	return fmt.Sprintf(". A host already has %s (see kubectl get ihw -A, and spec.claim.network.addresses of the IngotHosts): delete it and register it again, "+
		"unless it is the only control plane or a load balancer", list(has))
}

func list(addresses []netip.Addr) string {
	var texts []string
	for _, address := range addresses[:min(len(addresses), maxEndpoints)] {
		texts = append(texts, address.String())
	}
	if more := len(addresses) - maxEndpoints; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}
