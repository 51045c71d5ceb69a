// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// +kubebuilder:webhook:verbs=create;update;delete,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotnetwork,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks,versions=v1beta2,name=validation.ingotnetwork.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// networkValidator admits IngotNetworks. The schema has seen to it that every
// address is one, and lies in the subnet.
type networkValidator struct {
	// reader reads IngotHosts, IngotNetworks, IngotMachines and their templates from an
	// indexed cache.
	reader  client.Reader
	outlook warnings.Outlook
}

var _ admission.Validator[*v1beta2.IngotNetwork] = &networkValidator{}

// ValidateCreate admits a new network.
func (v *networkValidator) ValidateCreate(ctx context.Context, network *v1beta2.IngotNetwork) (admission.Warnings, error) {
	errs := slices.Concat(checkAddresses(network.Spec), checkReservations(network.Spec), checkNamespaces(network.Spec))
	overlaps, err := v.overlaps(ctx, network)
	if err != nil {
		return nil, err
	}
	ipv6, err := v.refuseIPv6(ctx, network)
	if err != nil {
		return nil, err
	}
	held, err := v.heldByOthers(ctx, network, nil)
	if err != nil {
		return nil, err
	}
	if err := refusal("IngotNetwork", network, slices.Concat(errs, overlaps, ipv6, held)); err != nil {
		return nil, err
	}
	return append(strayCommands(nil, network), v.outlook.Network(ctx, network)...), nil
}

// ValidateUpdate admits a change; the subnet cannot change (a CEL rule).
func (v *networkValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotNetwork) (admission.Warnings, error) {
	out := append(strayCommands(before.Annotations, after), v.poolLeft(ctx, before, after)...)
	out = append(out, v.reservationsLeft(ctx, before, after)...)
	if before.Spec.Range == after.Spec.Range && before.Spec.Gateway == after.Spec.Gateway && before.Spec.Subnet == after.Spec.Subnet &&
		equality.Semantic.DeepEqual(before.Spec.Reservations, after.Spec.Reservations) && slices.Equal(before.Spec.Routes, after.Spec.Routes) &&
		equality.Semantic.DeepEqual(before.Spec.AllowedNamespaces, after.Spec.AllowedNamespaces) &&
		(after.Spec.Discover == nil || slices.Equal(named(before.Spec), named(after.Spec))) &&
		equality.Semantic.DeepEqual(before.Spec.Discover, after.Spec.Discover) && equality.Semantic.DeepEqual(before.Spec.IPv6, after.Spec.IPv6) {
		return out, nil
	}
	ipv6, err := v.refuseIPv6(ctx, after)
	if err != nil {
		return nil, err
	}
	held, err := v.heldByOthers(ctx, after, before.Spec.Reservations)
	if err != nil {
		return nil, err
	}
	if err := refusal("IngotNetwork", after, slices.Concat(checkAddresses(after.Spec), checkReservations(after.Spec), checkNamespaces(after.Spec), ipv6, held)); err != nil {
		return nil, err
	}
	return append(out, v.outlook.Network(ctx, after)...), nil
}

// addresses are those of a network, parsed.
type addresses struct {
	subnet             netip.Prefix
	start, end         netip.Addr
	network, broadcast netip.Addr
	// lentStart and lentEnd are those of spec.discover.range.
	lentStart, lentEnd netip.Addr
}

// checkNamespaces refuses a selector that could never be used.
func checkNamespaces(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	if spec.AllowedNamespaces == nil {
		return nil
	}
	return checkLabelSelector(field.NewPath("spec", "allowedNamespaces", "selector"), spec.AllowedNamespaces.Selector)
}

// hasRange says whether Ingot chooses the addresses: in mode Proxy another DHCP server
// does, and with a pool its provider.
func hasRange(spec v1beta2.IngotNetworkSpec) bool {
	return spec.Mode != v1beta2.DHCPModeProxy && spec.AddressPoolRef == nil
}

func parseAddresses(spec v1beta2.IngotNetworkSpec) (addresses, field.ErrorList) {
	var out addresses
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.Subnet == "" && spec.IPv6 != nil {
		return out, nil // the schema sees to it that nothing else of IPv4 is there
	}
	var err error
	if out.subnet, err = netip.ParsePrefix(spec.Subnet); err != nil || !out.subnet.Addr().Is4() {
		return out, field.ErrorList{field.Invalid(path.Child("subnet"), spec.Subnet, "must be an IPv4 subnet such as 10.10.0.0/24")}
	}
	parse := func(path *field.Path, text string) netip.Addr {
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Is4() {
			errs = append(errs, field.Invalid(path, text, "must be an IPv4 address such as 10.10.0.1"))
		}
		return ip
	}
	out.network = out.subnet.Masked().Addr()
	out.broadcast = lastAddress(out.subnet)
	if d := spec.Discover; d != nil {
		out.lentStart = parse(path.Child("discover", "range", "start"), d.Range.Start)
		out.lentEnd = parse(path.Child("discover", "range", "end"), d.Range.End)
	}
	if !hasRange(spec) {
		return out, errs
	}
	out.start = parse(path.Child("range", "start"), spec.Range.Start)
	out.end = parse(path.Child("range", "end"), spec.Range.End)
	return out, errs
}

// lastAddress of an IPv4 subnet: its broadcast address.
func lastAddress(subnet netip.Prefix) netip.Addr {
	first := subnet.Masked().Addr().As4()
	var last [4]byte
	binary.BigEndian.PutUint32(last[:], binary.BigEndian.Uint32(first[:])|(1<<(32-subnet.Bits())-1))
	return netip.AddrFrom4(last)
}

// checkAddresses refuses what needs the order of addresses, which CEL lacks: a
// range that runs backwards, or holds the router's, the network's or the
// broadcast address; and two default routes.
func checkAddresses(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	a, errs := parseAddresses(spec)
	if len(errs) == 0 && a.subnet.IsValid() {
		errs = checkLent(a, spec)
	}
	if len(errs) > 0 || !a.subnet.IsValid() {
		return errs
	}
	return slices.Concat(checkRange(a, spec), checkGateway(a, spec), checkRoutes(spec))
}

func checkRange(a addresses, spec v1beta2.IngotNetworkSpec) (errs field.ErrorList) {
	if !hasRange(spec) {
		return nil
	}
	path := field.NewPath("spec", "range")
	start, end := path.Child("start"), path.Child("end")
	if a.end.Less(a.start) {
		errs = append(errs, field.Invalid(start, spec.Range.Start, fmt.Sprintf("must not be above range.end %s; swap them", spec.Range.End)))
	}
	if a.start == a.network {
		errs = append(errs, field.Invalid(start, spec.Range.Start,
			fmt.Sprintf("is the address of the subnet itself; start at %s or above", a.network.Next())))
	}
	if a.end == a.broadcast {
		errs = append(errs, field.Invalid(end, spec.Range.End,
			fmt.Sprintf("is the broadcast address of the subnet; end at %s or below", a.broadcast.Prev())))
	}
	return errs
}

func checkGateway(a addresses, spec v1beta2.IngotNetworkSpec) field.ErrorList {
	if spec.Gateway == "" {
		return nil
	}
	path := field.NewPath("spec", "gateway")
	gateway, err := netip.ParseAddr(spec.Gateway)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, spec.Gateway, "must be an IPv4 address such as 10.10.0.1")}
	case gateway == a.network || gateway == a.broadcast:
		return field.ErrorList{field.Invalid(path, spec.Gateway,
			fmt.Sprintf("is the first or last address of %s, which no router can have; give the router's address, or leave it out", spec.Subnet))}
	case hasRange(spec) && !gateway.Less(a.start) && !a.end.Less(gateway):
		return field.ErrorList{field.Invalid(path, spec.Gateway,
			fmt.Sprintf("must not lie in range %s to %s, which is given to hosts; make the range smaller", spec.Range.Start, spec.Range.End))}
	}
	return nil
}

// checkRoutes refuses a second default route: hosts would have the one or the other, and
// networkData has place for one.
func checkRoutes(spec v1beta2.IngotNetworkSpec) (errs field.ErrorList) {
	for i, route := range spec.Routes {
		if to, err := netip.ParsePrefix(route.Destination); err == nil && to.Bits() == 0 && spec.Gateway != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "routes").Index(i).Child("destination"), route.Destination,
				fmt.Sprintf("is the default route, which spec.gateway %s is already; leave one of the two out", spec.Gateway)))
		}
	}
	return errs
}

// overlaps refuses a subnet that another network holds a part of: one address
// would be recorded for two hosts. In mode Proxy none is recorded, so that hosts
// can be moved from one mode to the other on one subnet.
func (v *networkValidator) overlaps(ctx context.Context, network *v1beta2.IngotNetwork) (field.ErrorList, error) {
	mine, errs := parseAddresses(network.Spec)
	if len(errs) > 0 || !mine.subnet.IsValid() || network.Spec.Mode == v1beta2.DHCPModeProxy {
		return nil, nil // said already, or of no account
	}
	list := &v1beta2.IngotNetworkList{}
	if err := v.reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("look for networks that overlap %s: %w", network.Name, err)
	}
	// The cache lists in any order; the refusal is the same each time.
	slices.SortFunc(list.Items, func(a, b v1beta2.IngotNetwork) int { return strings.Compare(a.Name, b.Name) })
	for _, other := range list.Items {
		theirs, bad := parseAddresses(other.Spec)
		if other.Name == network.Name || other.Spec.Mode == v1beta2.DHCPModeProxy {
			continue
		}
		if len(bad) == 0 && theirs.subnet.Overlaps(mine.subnet) {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "subnet"), network.Spec.Subnet, fmt.Sprintf(
				"overlaps %s of IngotNetwork %s; use that network, or give a subnet beside it", other.Spec.Subnet, other.Name))}, nil
		}
	}
	return nil, nil
}

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
