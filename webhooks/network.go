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

// networkValidator validates IngotNetworks. The schema has already checked that each address is
// valid and in the subnet.
type networkValidator struct {
	// reader reads IngotHosts, IngotNetworks, IngotMachines and their templates from an
	// indexed cache.
	reader  client.Reader
	checker warnings.Checker
}

// ValidateCreate implements admission.Validator.
func (v *networkValidator) ValidateCreate(ctx context.Context, network *v1beta2.IngotNetwork) (admission.Warnings, error) {
	errs := slices.Concat(checkAddresses(network.Spec), checkReservations(network.Spec), checkNamespaces(network.Spec))
	overlaps, err := v.overlaps(ctx, network)
	if err != nil {
		return nil, err
	}
	ipv6, err := v.checkIPv6(ctx, network)
	if err != nil {
		return nil, err
	}
	held, err := v.checkHolders(ctx, network, nil)
	if err != nil {
		return nil, err
	}
	if err := invalid("IngotNetwork", network, slices.Concat(errs, overlaps, ipv6, held)); err != nil {
		return nil, err
	}
	return append(unknownAnnotations(nil, network), v.checker.Network(ctx, network)...), nil
}

// ValidateUpdate checks a changed network. A CEL rule makes the subnet immutable.
func (v *networkValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotNetwork) (admission.Warnings, error) {
	out := slices.Concat(unknownAnnotations(before.Annotations, after), v.removedPoolWarnings(ctx, before, after),
		v.removedReservationWarnings(ctx, before, after))
	if before.Spec.Range == after.Spec.Range && before.Spec.Gateway == after.Spec.Gateway && before.Spec.Subnet == after.Spec.Subnet &&
		equality.Semantic.DeepEqual(before.Spec.StaticLeases, after.Spec.StaticLeases) && slices.Equal(before.Spec.Routes, after.Spec.Routes) &&
		equality.Semantic.DeepEqual(before.Spec.AllowedNamespaces, after.Spec.AllowedNamespaces) &&
		(after.Spec.Discover == nil || slices.Equal(namedAddresses(before.Spec), namedAddresses(after.Spec))) &&
		equality.Semantic.DeepEqual(before.Spec.Discover, after.Spec.Discover) && equality.Semantic.DeepEqual(before.Spec.IPv6, after.Spec.IPv6) {
		return out, nil
	}
	ipv6, err := v.checkIPv6(ctx, after)
	if err != nil {
		return nil, err
	}
	held, err := v.checkHolders(ctx, after, before.Spec.StaticLeases)
	if err != nil {
		return nil, err
	}
	if err := invalid("IngotNetwork", after, slices.Concat(checkAddresses(after.Spec), checkReservations(after.Spec), checkNamespaces(after.Spec), ipv6, held)); err != nil {
		return nil, err
	}
	return append(out, v.checker.Network(ctx, after)...), nil
}

// addresses are the parsed IPv4 addresses of a network.
type addresses struct {
	subnet             netip.Prefix
	start, end         netip.Addr
	network, broadcast netip.Addr
	// discoverStart and discoverEnd are the ends of spec.discover.range.
	discoverStart, discoverEnd netip.Addr
}

func checkNamespaces(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	if spec.AllowedNamespaces == nil {
		return nil
	}
	return checkLabelSelector(field.NewPath("spec", "allowedNamespaces", "selector"), spec.AllowedNamespaces.Selector)
}

// usesRange reports whether Ingot assigns addresses from spec.range. In mode Proxy another DHCP
// server does, and with a pool its provider does.
func usesRange(spec v1beta2.IngotNetworkSpec) bool {
	return spec.Mode != v1beta2.DHCPModeProxy && spec.AddressPoolRef == nil
}

func parseAddresses(spec v1beta2.IngotNetworkSpec) (addresses, field.ErrorList) {
	var out addresses
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.Subnet == "" && spec.IPv6 != nil {
		return out, nil // the schema then allows no other IPv4 field
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
		out.discoverStart = parse(path.Child("discover", "range", "start"), d.Range.Start)
		out.discoverEnd = parse(path.Child("discover", "range", "end"), d.Range.End)
	}
	if !usesRange(spec) {
		return out, errs
	}
	out.start = parse(path.Child("range", "start"), spec.Range.Start)
	out.end = parse(path.Child("range", "end"), spec.Range.End)
	return out, errs
}

// lastAddress returns the broadcast address of an IPv4 subnet.
func lastAddress(subnet netip.Prefix) netip.Addr {
	first := subnet.Masked().Addr().As4()
	var last [4]byte
	binary.BigEndian.PutUint32(last[:], binary.BigEndian.Uint32(first[:])|(1<<(32-subnet.Bits())-1))
	return netip.AddrFrom4(last)
}

// checkAddresses makes the checks that need the order of addresses, which CEL lacks.
func checkAddresses(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	a, errs := parseAddresses(spec)
	if len(errs) == 0 && a.subnet.IsValid() {
		errs = checkDiscoverRange(a, spec)
	}
	if len(errs) > 0 || !a.subnet.IsValid() {
		return errs
	}
	return slices.Concat(checkRange(a, spec), checkGateway(a, spec), checkRoutes(spec))
}

func checkRange(a addresses, spec v1beta2.IngotNetworkSpec) (errs field.ErrorList) {
	if !usesRange(spec) {
		return nil
	}
	path := field.NewPath("spec", "range")
	start, end := path.Child("start"), path.Child("end")
	if a.end.Less(a.start) {
		errs = append(errs, field.Invalid(start, spec.Range.Start, fmt.Sprintf("must not be above range.end %s; swap them", spec.Range.End)))
	}
	if a.start == a.network {
		errs = append(errs, field.Invalid(start, spec.Range.Start,
			fmt.Sprintf("is the network address of the subnet; start at %s or above", a.network.Next())))
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
			fmt.Sprintf("is the first or last address of %s, which no router can have; use the router's address, or remove it", spec.Subnet))}
	case usesRange(spec) && !gateway.Less(a.start) && !a.end.Less(gateway):
		return field.ErrorList{field.Invalid(path, spec.Gateway,
			fmt.Sprintf("must not be in spec.range %s to %s, whose addresses Ingot assigns to hosts; make the range smaller", spec.Range.Start, spec.Range.End))}
	}
	return nil
}

// checkRoutes rejects a second default route: networkData has room for one.
func checkRoutes(spec v1beta2.IngotNetworkSpec) (errs field.ErrorList) {
	for i, route := range spec.Routes {
		if to, err := netip.ParsePrefix(route.Destination); err == nil && to.Bits() == 0 && spec.Gateway != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "routes").Index(i).Child("destination"), route.Destination,
				fmt.Sprintf("is a default route, but spec.gateway %s already is one; remove one of them", spec.Gateway)))
		}
	}
	return errs
}

// overlaps rejects a subnet that overlaps another network's: Ingot would assign an address twice.
// Networks of mode Proxy may overlap, because Ingot assigns none there; this allows a change of
// mode on one subnet.
func (v *networkValidator) overlaps(ctx context.Context, network *v1beta2.IngotNetwork) (field.ErrorList, error) {
	mine, errs := parseAddresses(network.Spec)
	if len(errs) > 0 || !mine.subnet.IsValid() || network.Spec.Mode == v1beta2.DHCPModeProxy {
		return nil, nil // rejected by checkAddresses, or irrelevant
	}
	others, err := v.otherNetworks(ctx, network)
	for _, other := range others {
		theirs, bad := parseAddresses(other.Spec)
		if len(bad) == 0 && other.Spec.Mode != v1beta2.DHCPModeProxy && theirs.subnet.Overlaps(mine.subnet) {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "subnet"), network.Spec.Subnet, fmt.Sprintf(
				"overlaps %s of IngotNetwork %s; use that network, or another subnet", other.Spec.Subnet, other.Name))}, nil
		}
	}
	return nil, err
}

// otherNetworks lists all networks except network, sorted by name for stable messages.
func (v *networkValidator) otherNetworks(ctx context.Context, network *v1beta2.IngotNetwork) ([]v1beta2.IngotNetwork, error) {
	list := &v1beta2.IngotNetworkList{}
	if err := v.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the networks other than %s: %w", network.Name, err)
	}
	others := slices.DeleteFunc(list.Items, func(other v1beta2.IngotNetwork) bool { return other.Name == network.Name })
	slices.SortFunc(others, func(a, b v1beta2.IngotNetwork) int { return strings.Compare(a.Name, b.Name) })
	return others, nil
}

// checkIPv6 rejects an invalid spec.ipv6, and one whose subnet overlaps another network's.
func (v *networkValidator) checkIPv6(ctx context.Context, network *v1beta2.IngotNetwork) (field.ErrorList, error) {
	if errs := checkIPv6Spec(network.Spec.IPv6); len(errs) > 0 || network.Spec.IPv6 == nil {
		return errs, nil
	}
	others, err := v.otherNetworks(ctx, network)
	if err != nil {
		return nil, err
	}
	return overlapsIPv6(network, others), nil
}

// checkIPv6Spec rejects a reversed range, a range with the Subnet-Router anycast address (RFC 4291
// section 2.6.1), and router advertisements for a subnet wider than /64. The range may contain the
// network's servers and relays: the assignment skips them.
func checkIPv6Spec(ipv6 *v1beta2.NetworkIPv6) field.ErrorList {
	if ipv6 == nil {
		return nil
	}
	if subnet, err := netip.ParsePrefix(ipv6.Subnet); err == nil && subnet.Bits() < 64 && ipv6.RouterAdvertisements != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "ipv6", "routerAdvertisements"), "{}", fmt.Sprintf(
			"is not allowed for a subnet wider than /64, because hosts would treat all of %s as on-link; remove it, or create one IngotNetwork per /64", ipv6.Subnet))}
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
		errs = append(errs, field.Invalid(path.Child("start"), ipv6.Range.Start, fmt.Sprintf("is the anycast address of the subnet's routers; start at %s or above", start.Next())))
	}
	return errs
}

// overlapsIPv6 rejects an IPv6 subnet that overlaps another network's, unless Ingot assigns no
// addresses on one of them.
func overlapsIPv6(network *v1beta2.IngotNetwork, others []v1beta2.IngotNetwork) field.ErrorList {
	mine, ok := assignedIPv6(network)
	if !ok {
		return nil
	}
	for i := range others {
		other := &others[i]
		if theirs, ok := assignedIPv6(other); ok && theirs.Overlaps(mine) {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "ipv6", "subnet"), network.Spec.IPv6.Subnet, fmt.Sprintf(
				"overlaps %s of IngotNetwork %s; use that network, or another subnet", other.Spec.IPv6.Subnet, other.Name))}
		}
	}
	return nil
}

// assignedIPv6 returns the IPv6 subnet from which Ingot assigns addresses; false if there is none.
func assignedIPv6(network *v1beta2.IngotNetwork) (netip.Prefix, bool) {
	if network.Spec.IPv6 == nil || network.Spec.IPv6.Mode == v1beta2.DHCPv6ModeStateless {
		return netip.Prefix{}, false
	}
	subnet, err := netip.ParsePrefix(network.Spec.IPv6.Subnet)
	return subnet, err == nil
}
