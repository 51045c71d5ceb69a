// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
)

// countable bounds the networks whose hosts are counted: a range of more addresses
// is not used up by an inventory that Ingot is made for (5,000 hosts).
const countable = 8192

// Unlabelled warns of a host that is in no failure domain although other hosts of its
// cluster are. before is nil for a new host; else only a label that the host has lost
// is told.
func (o Outlook) Unlabelled(ctx context.Context, before, host *v1beta2.IngotHost) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if before != nil && !lost(before.Labels, host.Labels) {
		return nil // an update that changes something else reads nothing
	}
	var warnings []string
	told := map[string]bool{}
	for _, d := range o.domains(ctx, host) {
		if _, ok := host.Labels[d.key]; ok || told[d.key] {
			continue
		}
		if before != nil {
			if _, had := before.Labels[d.key]; !had {
				continue
			}
		}
		if o.some(ctx, host.Namespace, both(d.admitted, labelled(d.key))) {
			told[d.key] = true
			warnings = append(warnings, fmt.Sprintf("%s: is not set, but other hosts of namespace %s carry the label; "+
				"give the host its value, until then it is in no failure domain", field.NewPath("metadata", "labels").Key(d.key), host.Namespace))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// lost says whether a label was taken away.
func lost(before, after map[string]string) bool {
	for key := range before {
		if _, ok := after[key]; !ok {
			return true
		}
	}
	return false
}

// domain is a label whose values are failure domains, and the hosts that it is for.
type domain struct {
	key      string
	admitted labels.Selector
}

// domains are those of the clusters that may draw on the host; of none, the default.
func (o Outlook) domains(ctx context.Context, host *v1beta2.IngotHost) []domain {
	clusters := &v1beta2.IngotClusterList{}
	if err := o.Reader.List(ctx, clusters, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	if len(clusters.Items) == 0 {
		return []domain{{key: v1beta2.RackLabel, admitted: labels.Everything()}}
	}
	var out []domain
	for i := range clusters.Items {
		admitted := parse(clusters.Items[i].Spec.HostSelector)
		if admitted != nil && admitted.Matches(labels.Set(host.Labels)) {
			out = append(out, domain{key: inventory.FailureDomainLabel(&clusters.Items[i]), admitted: admitted})
		}
	}
	return out
}

// Crowded warns of a host on a network that has no address left for it.
func (o Outlook) Crowded(ctx context.Context, host *v1beta2.IngotHost) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	network := &v1beta2.IngotNetwork{}
	name := host.Spec.NetworkRef.Name
	if err := o.Reader.Get(ctx, client.ObjectKey{Name: name}, network, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []string
	for _, r := range rangesOf(network.Spec) {
		others, ok := o.onNetwork(ctx, name, r.size, host)
		if ok && others >= r.size {
			out = append(out, fmt.Sprintf("spec.networkRef.name: IngotNetwork %q has %d addresses in %s, and as many other hosts boot on it; "+
				"make the range larger, or use another network, until then the host is not booted", name, r.size, r.field))
		}
	}
	return out
}

// Network warns of a network with fewer addresses than hosts that boot on it, and with
// control planes' endpoints among them.
func (o Outlook) Network(ctx context.Context, network *v1beta2.IngotNetwork) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out []string
	for _, r := range rangesOf(network.Spec) {
		hosts, ok := o.onNetwork(ctx, network.Name, r.size+1, nil)
		if ok && hosts > r.size {
			out = append(out, fmt.Sprintf("%s: %s to %s holds %d addresses, and more hosts boot on the network; make it larger, "+
				"until then some of them are not booted", r.field, r.start, r.end, r.size))
		}
	}
	if len(network.Spec.Routes) > 0 && network.Spec.Gateway == "" {
		out = append(out, "spec.gateway: is not set, and firmware and boot loaders apply no spec.routes, only Ingot's agent and installed systems do; "+
			"give a gateway, unless the boot server has an address in spec.subnet")
	}
	return append(out, o.endpoints(ctx, network)...)
}

// addressRange is one that a network records addresses from.
type addressRange struct {
	field, start, end string
	// size in addresses, at least 1, and no more than countable+1.
	size int64
}

// rangesOf are those of which each host needs an address to be booted. One that is none is
// left out: it is refused already.
func rangesOf(spec v1beta2.IngotNetworkSpec) []addressRange {
	all := []addressRange{{field: "spec.range", start: spec.Range.Start, end: spec.Range.End}}
	if ipv6 := spec.IPv6; ipv6 != nil && ipv6.Mode != v1beta2.DHCPv6ModeStateless {
		all = append(all, addressRange{field: "spec.ipv6.range", start: ipv6.Range.Start, end: ipv6.Range.End})
	}
	var out []addressRange
	for _, r := range all {
		if r.size = addresses(r.start, r.end); r.size > 0 {
			out = append(out, r)
		}
	}
	return out
}

// onNetwork counts, up to limit, the hosts that name a network, but the one given.
func (o Outlook) onNetwork(ctx context.Context, name string, limit int64, but *v1beta2.IngotHost) (int64, bool) {
	if limit < 1 || limit > countable {
		return 0, false
	}
	hosts := &v1beta2.IngotHostList{}
	if err := o.Reader.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: name},
		client.Limit(limit+1), client.UnsafeDisableDeepCopy); err != nil {
		return 0, false
	}
	var count int64
	for i := range hosts.Items {
		if but == nil || hosts.Items[i].Name != but.Name || hosts.Items[i].Namespace != but.Namespace {
			count++
		}
	}
	return min(count, limit), true
}

// addresses counts those of a range, both ends included and up to countable+1; 0 if it is
// none.
func addresses(first, last string) int64 {
	start, err := netip.ParseAddr(first)
	end, otherErr := netip.ParseAddr(last)
	if err != nil || otherErr != nil || start.BitLen() != end.BitLen() || end.Less(start) {
		return 0
	}
	a, b := start.As16(), end.As16()
	between := binary.BigEndian.Uint64(b[8:]) - binary.BigEndian.Uint64(a[8:])
	if [8]byte(a[:8]) != [8]byte(b[:8]) || between > countable {
		return countable + 1
	}
	return min(int64(between), countable) + 1
}
