// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// ValidateDelete keeps a network that hosts boot on, or of which installed systems have
// addresses, and warns of machines that will miss it.
func (v *networkValidator) ValidateDelete(ctx context.Context, network *v1beta2.IngotNetwork) (admission.Warnings, error) {
	if isLetGo(network) {
		return nil, nil
	}
	refuse := func(format string, hosts []v1beta2.IngotHost) error {
		return refusal("IngotNetwork", network, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), network.Name, fmt.Sprintf(format, names(hosts)))})
	}
	hosts := &v1beta2.IngotHostList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: network.Name}); err != nil {
		return nil, fmt.Errorf("look for hosts on IngotNetwork %s: %w", network.Name, err)
	}
	if len(hosts.Items) > 0 {
		return nil, refuse("is the network that IngotHost %s boots on; delete the hosts, or refer them to another network, first", hosts.Items)
	}
	guarded, err := v.guardedBy(ctx, network)
	if err != nil {
		return nil, err
	}
	if len(guarded) > 0 {
		return nil, refuse("keeps the addresses that the systems on IngotHost %s were given (spec.claim.network.addresses, or spec.record.quarantine.addresses) from being given to others; "+
			"delete their Machines, or see those that are quarantined off, first", guarded)
	}
	return v.missedBy(ctx, network), nil
}

// guardedBy lists the hosts whose systems have addresses that nobody is kept from without
// the network: addresses are compared on IngotNetworks. One in mode Proxy may lie on the
// subnet of another, and either does.
func (v *networkValidator) guardedBy(ctx context.Context, network *v1beta2.IngotNetwork) ([]v1beta2.IngotHost, error) {
	list := &v1beta2.IngotNetworkList{}
	if err := v.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // nothing of it is changed
		return nil, fmt.Errorf("networks beside %s: %w", network.Name, err)
	}
	others := map[string]v1beta2.IngotNetworkSpec{}
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != network.Name && other.DeletionTimestamp.IsZero() {
			others[other.Name] = other.Spec
		}
	}
	hosts := &v1beta2.IngotHostList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostWithClaimAddress: index.Any}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("hosts whose systems have addresses of IngotNetwork %s: %w", network.Name, err)
	}
	var guarded []v1beta2.IngotHost
	for i := range hosts.Items {
		if slices.ContainsFunc(addressuse.InLedger(&hosts.Items[i]), func(ip string) bool {
			address, err := netip.ParseAddr(ip)
			return err == nil && addressuse.Contains(network.Spec, address) && !addressuse.OnAny(others, address)
		}) {
			guarded = append(guarded, hosts.Items[i])
		}
	}
	return guarded, nil
}

// missedBy warns of machines, and of templates, whose networkData names the network: none
// of them is given a host any more.
func (v *networkValidator) missedBy(ctx context.Context, network *v1beta2.IngotNetwork) admission.Warnings {
	machines, templates := &v1beta2.IngotMachineList{}, &v1beta2.IngotMachineTemplateList{}
	if v.reader.List(ctx, machines, client.UnsafeDisableDeepCopy) != nil || v.reader.List(ctx, templates, client.UnsafeDisableDeepCopy) != nil {
		return nil // it is a warning only
	}
	var out []string
	look := func(kind string, object client.Object, data *v1beta2.NetworkData) {
		if slices.ContainsFunc(networkdata.ReservedIn(nil, data), func(r networkdata.Reserved) bool { return r.Network == network.Name }) {
			out = append(out, fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName()))
		}
	}
	for i := range machines.Items {
		look("IngotMachine", &machines.Items[i], machines.Items[i].Spec.NetworkData)
	}
	for i := range templates.Items {
		look("IngotMachineTemplate", &templates.Items[i], templates.Items[i].Spec.Template.Spec.NetworkData)
	}
	if len(out) == 0 {
		return nil
	}
	slices.Sort(out)
	return admission.Warnings{fmt.Sprintf("metadata.name: networkData of %s names this network; until one of that name is there again no host is given to such machines", listed(out))}
}
