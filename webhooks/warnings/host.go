// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
)

// maxCounted limits the address ranges whose hosts are counted. Ingot's inventory of at most 5,000
// hosts does not exhaust a larger range.
const maxCounted = 8192

// MissingDomainLabels warns about a host without the failure domain label that other hosts of its
// cluster have. before is nil for a new host; for an update only a removed label counts.
func (c Checker) MissingDomainLabels(ctx context.Context, before, host *v1beta2.IngotHost) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	removed := func(key string) bool { _, ok := host.Labels[key]; return !ok }
	if before != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(before.Labels)), removed) {
		return nil
	}
	var warnings []string
	warned := map[string]bool{}
	for _, d := range c.domainLabels(ctx, host) {
		if !removed(d.key) || warned[d.key] {
			continue
		}
		if before != nil {
			if _, had := before.Labels[d.key]; !had {
				continue
			}
		}
		if c.some(ctx, host.Namespace, and(d.hosts, hasLabel(d.key))) {
			warned[d.key] = true
			warnings = append(warnings, fmt.Sprintf("%s: is not set, but other hosts of namespace %s have the label; "+
				"set it: the host is in no failure domain until then", field.NewPath("metadata", "labels").Key(d.key), host.Namespace))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// domainLabel is a label whose values are failure domains, with the hosts to which it applies.
type domainLabel struct {
	key   string
	hosts labels.Selector
}

// domainLabels returns the labels of the clusters that may use the host, or the default label if
// the namespace has no cluster.
func (c Checker) domainLabels(ctx context.Context, host *v1beta2.IngotHost) []domainLabel {
	clusters := &v1beta2.IngotClusterList{}
	if err := c.Reader.List(ctx, clusters, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	if len(clusters.Items) == 0 {
		return []domainLabel{{key: v1beta2.RackLabel, hosts: labels.Everything()}}
	}
	var out []domainLabel
	for i := range clusters.Items {
		selector := parseSelector(clusters.Items[i].Spec.HostSelector)
		if selector != nil && selector.Matches(labels.Set(host.Labels)) {
			out = append(out, domainLabel{key: inventory.FailureDomainLabel(&clusters.Items[i]), hosts: selector})
		}
	}
	return out
}

// FullNetwork warns about a host whose network has no free address.
func (c Checker) FullNetwork(ctx context.Context, host *v1beta2.IngotHost) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	network := &v1beta2.IngotNetwork{}
	name := host.Spec.NetworkRef.Name
	if err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, network, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []string
	for _, r := range rangesOf(network.Spec) {
		others, ok := c.countHosts(ctx, name, r.size, host)
		if ok && others >= r.size {
			out = append(out, fmt.Sprintf("spec.networkRef.name: IngotNetwork %q has %d addresses in %s, and as many other hosts; "+
				"make the range larger, or use another network: Ingot does not boot the host until then", name, r.size, r.field))
		}
	}
	return out
}

// Network warns about a network with fewer addresses than hosts, with control plane endpoints
// among its addresses, or with routes but no gateway.
func (c Checker) Network(ctx context.Context, network *v1beta2.IngotNetwork) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var out []string
	for _, r := range rangesOf(network.Spec) {
		hosts, ok := c.countHosts(ctx, network.Name, r.size+1, nil)
		if ok && hosts > r.size {
			out = append(out, fmt.Sprintf("%s: %s to %s has %d addresses, but more hosts boot on the network; make it larger: "+
				"Ingot does not boot some of them until then", r.field, r.start, r.end, r.size))
		}
	}
	if len(network.Spec.Routes) > 0 && network.Spec.Gateway == "" {
		out = append(out, "spec.gateway: is not set, and firmware and boot loaders ignore spec.routes; "+
			"set a gateway, unless the boot server has an address in spec.subnet")
	}
	return append(out, c.endpoints(ctx, network)...)
}

// addressRange is a range from which a network assigns addresses.
type addressRange struct {
	field, start, end string
	// size is the number of addresses, from 1 to maxCounted+1.
	size int64
}

// rangesOf lists the valid ranges of which each host needs an address to boot.
func rangesOf(spec v1beta2.IngotNetworkSpec) []addressRange {
	all := []addressRange{{field: "spec.range", start: spec.Range.Start, end: spec.Range.End}}
	if ipv6 := spec.IPv6; ipv6 != nil && ipv6.Mode != v1beta2.DHCPv6ModeStateless {
		all = append(all, addressRange{field: "spec.ipv6.range", start: ipv6.Range.Start, end: ipv6.Range.End})
	}
	var out []addressRange
	for _, r := range all {
		if r.size = rangeSize(r.start, r.end); r.size > 0 {
			out = append(out, r)
		}
	}
	return out
}

// countHosts counts, up to limit, the hosts that name a network, except the host except.
func (c Checker) countHosts(ctx context.Context, name string, limit int64, except *v1beta2.IngotHost) (int64, bool) {
	if limit < 1 || limit > maxCounted {
		return 0, false
	}
	hosts := &v1beta2.IngotHostList{}
	if err := c.Reader.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: name},
		client.Limit(limit+1), client.UnsafeDisableDeepCopy); err != nil {
		return 0, false
	}
	var count int64
	for i := range hosts.Items {
		if except == nil || client.ObjectKeyFromObject(&hosts.Items[i]) != client.ObjectKeyFromObject(except) {
			count++
		}
	}
	return min(count, limit), true
}

// rangeSize returns the number of addresses of a range with both ends, at most maxCounted+1, or 0 if
// the range is invalid.
func rangeSize(first, last string) int64 {
	start, err := netip.ParseAddr(first)
	end, otherErr := netip.ParseAddr(last)
	if err != nil || otherErr != nil || start.BitLen() != end.BitLen() || end.Less(start) {
		return 0
	}
	a, b := start.As16(), end.As16()
	between := binary.BigEndian.Uint64(b[8:]) - binary.BigEndian.Uint64(a[8:])
	if [8]byte(a[:8]) != [8]byte(b[:8]) || between > maxCounted {
		return maxCounted + 1
	}
	return min(int64(between), maxCounted) + 1
}
