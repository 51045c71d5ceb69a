// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// refuseIPv6 refuses an IPv6 part that cannot work, by itself or beside other networks.
func (v *networkValidator) refuseIPv6(ctx context.Context, network *v1beta2.IngotNetwork) (field.ErrorList, error) {
	if errs := checkIPv6(network.Spec.IPv6); len(errs) > 0 || network.Spec.IPv6 == nil {
		return errs, nil
	}
	list := &v1beta2.IngotNetworkList{}
	if err := v.reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("look for networks that overlap %s: %w", network.Name, err)
	}
	// The cache lists in any order; the refusal is the same each time.
	slices.SortFunc(list.Items, func(a, b v1beta2.IngotNetwork) int { return strings.Compare(a.Name, b.Name) })
	return overlapsIPv6(network, list.Items), nil
}

// checkIPv6 refuses a range that runs backwards or holds the subnet's own address, and
// advertisements of more than a segment.
// Addresses of servers and relays that the network names may lie in it: they are
// skipped when one is chosen.
func checkIPv6(ipv6 *v1beta2.NetworkIPv6) field.ErrorList {
	if ipv6 == nil {
		return nil
	}
	if subnet, err := netip.ParsePrefix(ipv6.Subnet); err == nil && subnet.Bits() < 64 && ipv6.RouterAdvertisements != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "ipv6", "routerAdvertisements"), "{}", fmt.Sprintf(
			"must not be there for a subnet wider than /64: hosts would take all of %s for their neighbours; leave it out, or make an IngotNetwork of each segment's /64", ipv6.Subnet))}
	}
	if ipv6.Mode == v1beta2.DHCPv6ModeStateless {
		return nil
	}
	path := field.NewPath("spec", "ipv6", "range")
	start, startErr := netip.ParseAddr(ipv6.Range.Start)
	end, endErr := netip.ParseAddr(ipv6.Range.End)
	subnet, subnetErr := netip.ParsePrefix(ipv6.Subnet)
	if startErr != nil || endErr != nil || subnetErr != nil {
		return field.ErrorList{field.Invalid(path, ipv6.Range.Start+" to "+ipv6.Range.End, "must be two IPv6 addresses in spec.ipv6.subnet "+ipv6.Subnet)}
	}
	var errs field.ErrorList
	if end.Less(start) {
		errs = append(errs, field.Invalid(path.Child("start"), ipv6.Range.Start, fmt.Sprintf("must not be above ipv6.range.end %s; swap them", ipv6.Range.End)))
	}
	if start == subnet.Masked().Addr() {
		errs = append(errs, field.Invalid(path.Child("start"), ipv6.Range.Start, fmt.Sprintf("is the address of every router of the subnet; start at %s or above", start.Next())))
	}
	return errs
}

// overlapsIPv6 refuses an IPv6 subnet that another network holds a part of, unless one
// of the two records no addresses.
func overlapsIPv6(network *v1beta2.IngotNetwork, others []v1beta2.IngotNetwork) field.ErrorList {
	mine, ok := recordedIPv6(network)
	if !ok {
		return nil
	}
	for i := range others {
		other := &others[i]
		if theirs, ok := recordedIPv6(other); ok && other.Name != network.Name && theirs.Overlaps(mine) {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "ipv6", "subnet"), network.Spec.IPv6.Subnet, fmt.Sprintf(
				"overlaps %s of IngotNetwork %s; use that network, or give a subnet beside it", other.Spec.IPv6.Subnet, other.Name))}
		}
	}
	return nil
}

func recordedIPv6(network *v1beta2.IngotNetwork) (netip.Prefix, bool) {
	if network.Spec.IPv6 == nil || network.Spec.IPv6.Mode == v1beta2.DHCPv6ModeStateless {
		return netip.Prefix{}, false
	}
	subnet, err := netip.ParsePrefix(network.Spec.IPv6.Subnet)
	return subnet, err == nil
}
