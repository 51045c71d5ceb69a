// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

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
	"github.com/ingot-metal/ingot/controllers/index"
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
	size := addresses(network.Spec.Range)
	others, ok := o.onNetwork(ctx, name, size, host)
	if !ok || others < size {
		return nil
	}
	return []string{fmt.Sprintf("spec.networkRef.name: IngotNetwork %q has %d addresses in spec.range, and as many other hosts boot on it; "+
		"make the range larger, or use another network, until then the host is not booted", name, size)}
}

// Network warns of a network with fewer addresses than hosts that boot on it.
func (o Outlook) Network(ctx context.Context, network *v1beta2.IngotNetwork) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	size := addresses(network.Spec.Range)
	if size < 1 {
		return nil // refused already
	}
	hosts, ok := o.onNetwork(ctx, network.Name, size+1, nil)
	if !ok || hosts <= size {
		return nil
	}
	return []string{fmt.Sprintf("spec.range: %s to %s holds %d addresses, and more hosts boot on the network; make it larger, "+
		"until then some of them are not booted", network.Spec.Range.Start, network.Spec.Range.End, size)}
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

// addresses counts those of a range, 0 if it is none.
func addresses(r v1beta2.AddressRange) int64 {
	start, err := netip.ParseAddr(r.Start)
	end, otherErr := netip.ParseAddr(r.End)
	if err != nil || otherErr != nil || !start.Is4() || !end.Is4() || end.Less(start) {
		return 0
	}
	first, last := start.As4(), end.As4()
	return int64(binary.BigEndian.Uint32(last[:])) - int64(binary.BigEndian.Uint32(first[:])) + 1
}
