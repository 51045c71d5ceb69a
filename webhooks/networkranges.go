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

// namedAddress is an address that a network has for somebody.
type namedAddress struct{ address, of string }

// named are all of them, of routers, servers and relays, in a fixed order.
func named(spec v1beta2.IngotNetworkSpec) []namedAddress {
	out := []namedAddress{{spec.Gateway, "the gateway"}}
	add := func(of string, addresses ...string) {
		for _, address := range addresses {
			out = append(out, namedAddress{address, of})
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

// lent says whether an address is lent to unknown machines; none is where the network has
// no such range, or one that does not parse.
func (a addresses) lent(ip netip.Addr) bool {
	return ip.IsValid() && a.lentStart.IsValid() && a.lentEnd.IsValid() && !ip.Less(a.lentStart) && !a.lentEnd.Less(ip)
}

// checkLent refuses addresses for unknown machines that are, or become, somebody's.
func checkLent(a addresses, spec v1beta2.IngotNetworkSpec) field.ErrorList {
	if spec.Discover == nil {
		return nil
	}
	path := field.NewPath("spec", "discover", "range")
	var taken []string
	for _, n := range named(spec) {
		if ip, _ := netip.ParseAddr(n.address); a.lent(ip) {
			taken = append(taken, n.address+" of "+n.of)
		}
	}
	refuse := func(at, value, format string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(path.Child(at), value, fmt.Sprintf(format, args...))}
	}
	start, end := spec.Discover.Range.Start, spec.Discover.Range.End
	switch {
	case a.lentEnd.Less(a.lentStart):
		return refuse("start", start, "must not be above discover.range.end %s; swap them", end)
	case a.lent(a.network):
		return refuse("start", start, "is the address of the subnet itself; start at %s or above", a.network.Next())
	case a.lent(a.broadcast):
		return refuse("end", end, "is the broadcast address of the subnet; end at %s or below", a.broadcast.Prev())
	case len(taken) > 0:
		return refuse("start", start, "the range holds the address %s; make it smaller", strings.Join(taken, ", "))
	case a.start.IsValid() && !a.lentEnd.Less(a.start) && !a.end.Less(a.lentStart):
		return refuse("start", start, "to %s overlaps spec.range %s to %s, which is given to hosts for good; give unknown machines addresses beside it",
			end, spec.Range.Start, spec.Range.End)
	}
	return nil
}

// poolLeft warns that hosts in use stay with a pool that the network names no more.
func (v *networkValidator) poolLeft(ctx context.Context, before, after *v1beta2.IngotNetwork) admission.Warnings {
	left := before.Spec.AddressPoolRef
	if left == nil || equality.Semantic.DeepEqual(left, after.Spec.AddressPoolRef) {
		return nil
	}
	hosts := &v1beta2.IngotHostList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: after.Name}); err != nil {
		return nil // it is a warning only
	}
	stay := slices.DeleteFunc(hosts.Items, func(host v1beta2.IngotHost) bool { return host.Spec.Claim == nil && host.Spec.Order == nil })
	if len(stay) == 0 {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("spec.addressPoolRef: %d hosts in use keep the addresses that %s %q gave them, and their IPAddressClaims, until they are released; "+
		"keep that pool until then, and its addresses out of any other", len(stay), left.Kind, left.Name)}
}
