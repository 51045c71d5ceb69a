// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// namedAddress is the address of a router, server or relay in a network's spec.
type namedAddress struct{ address, owner string }

// namedAddresses lists the named addresses of a network in a fixed order.
func namedAddresses(spec v1beta2.IngotNetworkSpec) []namedAddress {
	out := []namedAddress{{spec.Gateway, "the gateway"}}
	add := func(owner string, addresses ...string) {
		for _, address := range addresses {
			out = append(out, namedAddress{address, owner})
		}
	}
	add("a DNS server", spec.DNSServers...)
	add("an NTP server", spec.NTPServers...)
	add("a relay", spec.Relays...)
	for _, route := range spec.Routes {
		add("the gateway of a route", route.Gateway)
	}
	return slices.DeleteFunc(out, func(n namedAddress) bool { return n.address == "" })
}

// isForDiscovery reports whether an address is in spec.discover.range, for unknown clients. It is
// false if the range is unset or invalid.
func (a addresses) isForDiscovery(ip netip.Addr) bool {
	return ip.IsValid() && a.discoverStart.IsValid() && a.discoverEnd.IsValid() && !ip.Less(a.discoverStart) && !a.discoverEnd.Less(ip)
}

// checkDiscoverRange rejects a discovery range that is reversed, or contains addresses that are used
// otherwise.
func checkDiscoverRange(a addresses, spec v1beta2.IngotNetworkSpec) field.ErrorList {
	if spec.Discover == nil {
		return nil
	}
	path := field.NewPath("spec", "discover", "range")
	var taken []string
	for _, n := range namedAddresses(spec) {
		if ip, _ := netip.ParseAddr(n.address); a.isForDiscovery(ip) {
			taken = append(taken, n.address+" of "+n.owner)
		}
	}
	reject := func(at, value, format string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(path.Child(at), value, fmt.Sprintf(format, args...))}
	}
	start, end := spec.Discover.Range.Start, spec.Discover.Range.End
	switch {
	case a.discoverEnd.Less(a.discoverStart):
		return reject("start", start, "must not be above discover.range.end %s; swap them", end)
	case a.isForDiscovery(a.network):
		return reject("start", start, "is the network address of the subnet; start at %s or above", a.network.Next())
	case a.isForDiscovery(a.broadcast):
		return reject("end", end, "is the broadcast address of the subnet; end at %s or below", a.broadcast.Prev())
	case len(taken) > 0:
		return reject("start", start, "the range contains the address %s; make it smaller", strings.Join(taken, ", "))
	case a.start.IsValid() && !a.discoverEnd.Less(a.start) && !a.end.Less(a.discoverStart):
		return reject("start", start, "to %s overlaps spec.range %s to %s, whose addresses Ingot assigns to hosts; use other addresses for discovery",
			end, spec.Range.Start, spec.Range.End)
	}
	return nil
}

// removedPoolWarnings warns about hosts in use that keep addresses of a pool that the network no
// longer uses.
func (v *networkValidator) removedPoolWarnings(ctx context.Context, before, after *v1beta2.IngotNetwork) admission.Warnings {
	pool := before.Spec.AddressPoolRef
	if pool == nil || equality.Semantic.DeepEqual(pool, after.Spec.AddressPoolRef) {
		return nil
	}
	hosts := &v1beta2.IngotHostList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: after.Name}); err != nil {
		return nil // only a warning is lost
	}
	inUse := slices.DeleteFunc(hosts.Items, func(host v1beta2.IngotHost) bool { return host.Spec.Claim == nil && host.Spec.Order == nil })
	if len(inUse) == 0 {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("spec.addressPoolRef: %d hosts in use keep their addresses of %s %q, and their IPAddressClaims, until their release; "+
		"keep that pool until then, and do not add its addresses to another pool", len(inUse), pool.Kind, pool.Name)}
}
