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

// maxEndpoints bounds how many endpoints one warning names.
const maxEndpoints = 3

// Endpoint warns of a control plane's endpoint that lies where an IngotNetwork gives or
// reserves addresses, or that a host has already. path leads to its host. Of hosts those of
// the namespace alone are named: who writes the cluster may not know the others.
func (o Outlook) Endpoint(ctx context.Context, namespace string, path *field.Path, host string) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address := addressuse.ParseEndpoint(host)
	networks := &v1beta2.IngotNetworkList{}
	if !address.IsValid() || o.Reader.List(ctx, networks, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var out []string
	for i := range networks.Items {
		network := &networks.Items[i]
		switch use := addressuse.Of(network.Spec, address); use {
		case addressuse.Ranged, addressuse.Lent:
			out = append(out, fmt.Sprintf("%s: %q is %s of IngotNetwork %s; give one beside it, or make that range smaller. From now on Ingot gives the address to nobody there",
				path, host, use, network.Name))
		case addressuse.Reserved:
			out = append(out, fmt.Sprintf("%s: %q is reserved for an interface by IngotNetwork %s; give another, or reserve another, unless that server is to be the only control plane",
				path, host, network.Name))
		}
	}
	slices.Sort(out) // the cache lists in any order
	held, err := index.HoldersOf(ctx, o.Reader, address)
	if others := held.Besides(address, client.ObjectKey{}); err == nil && len(others) > 0 {
		out = append(out, fmt.Sprintf("%s: %q is the address of %s, by record or by the claim of the system installed there, and two servers would have it; give another, "+
			"or delete that IngotHost and register it again, unless it is to be the only control plane, or a load balancer",
			path, host, inventory.ListHosts(namespace, others)))
	}
	return out
}

// endpoints warns of those that a network may not give to hosts, though they lie in what it
// gives, or that it reserves. Whose they are is not said: a network belongs to all
// namespaces, and so does who reads the warning.
func (o Outlook) endpoints(ctx context.Context, network *v1beta2.IngotNetwork) []string {
	all, err := index.Endpoints(ctx, o.Reader)
	if err != nil {
		return nil
	}
	in := map[string][]netip.Addr{}
	for _, address := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		if at := givenBy(network.Spec, address); at != "" {
			in[at] = append(in[at], address)
		}
	}
	var out []string
	for _, at := range slices.Sorted(maps.Keys(in)) {
		remedy := "make it smaller, until then that is given to nobody"
		if at == reservations {
			remedy = "reserve another, unless that server is to be the only control plane"
		}
		out = append(out, fmt.Sprintf("%s: holds %s, by which control planes are reached (kubectl get ingotclusters -A shows whose); %s%s", at, list(in[at]), remedy, o.had(ctx, in[at])))
	}
	return out
}

// reservations is the field that keeps addresses for interfaces.
const reservations = "spec.reservations"

// givenBy is the field by which a network gives an address; empty: it does not.
func givenBy(network v1beta2.IngotNetworkSpec, address netip.Addr) string {
	switch use := addressuse.Of(network, address); {
	case use == addressuse.Ranged && address.Is4():
		return "spec.range"
	case use == addressuse.Ranged:
		return "spec.ipv6.range"
	case use == addressuse.Lent:
		return "spec.discover.range"
	case use == addressuse.Reserved:
		return reservations
	}
	return ""
}

// had tells of addresses that hosts have already.
func (o Outlook) had(ctx context.Context, addresses []netip.Addr) string {
	held, err := index.HoldersOf(ctx, o.Reader, addresses...)
	if err != nil || len(held) == 0 {
		return ""
	}
	has := slices.DeleteFunc(slices.Clone(addresses), func(address netip.Addr) bool { return len(held[address]) == 0 })
	return fmt.Sprintf(". A host has %s already (kubectl get ihw -A, or spec.claim.network.addresses of IngotHosts, show which): delete it and register it again, "+
		"unless it is to be the only control plane, or a load balancer", list(has))
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
