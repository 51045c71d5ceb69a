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

// ValidateDelete rejects the deletion of a network that hosts boot on, or whose addresses installed
// systems use. It warns about machines whose networkData needs the network.
func (v *networkValidator) ValidateDelete(ctx context.Context, network *v1beta2.IngotNetwork) (admission.Warnings, error) {
	if isDeletedForMove(network) {
		return nil, nil
	}
	reject := func(format string, hosts []v1beta2.IngotHost) error {
		return invalid("IngotNetwork", network, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), network.Name, fmt.Sprintf(format, names(hosts)))})
	}
	hosts := &v1beta2.IngotHostList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: network.Name}); err != nil {
		return nil, fmt.Errorf("list the hosts on IngotNetwork %s: %w", network.Name, err)
	}
	if len(hosts.Items) > 0 {
		return nil, reject("IngotHost %s boots on this network; first delete the hosts, or change their spec.networkRef", hosts.Items)
	}
	users, err := v.hostsWithAddresses(ctx, network)
	if err != nil {
		return nil, err
	}
	if len(users) > 0 {
		return nil, reject("protects addresses of the systems on IngotHost %s (spec.claim.network.addresses or spec.record.quarantine.addresses) from a second assignment; "+
			"first delete their Machines, or power off the quarantined hosts", users)
	}
	return v.networkDataWarnings(ctx, network), nil
}

// hostsWithAddresses lists the hosts whose systems have addresses that only this network protects
// from a second assignment. Networks may overlap if one has mode Proxy; each of them suffices.
func (v *networkValidator) hostsWithAddresses(ctx context.Context, network *v1beta2.IngotNetwork) ([]v1beta2.IngotHost, error) {
	list, err := v.otherNetworks(ctx, network)
	if err != nil {
		return nil, err
	}
	others := map[string]v1beta2.IngotNetworkSpec{}
	for i := range list {
		if list[i].DeletionTimestamp.IsZero() {
			others[list[i].Name] = list[i].Spec
		}
	}
	hosts := &v1beta2.IngotHostList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostWithClaimAddress: index.Any}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the hosts with addresses of IngotNetwork %s: %w", network.Name, err)
	}
	return slices.DeleteFunc(hosts.Items, func(host v1beta2.IngotHost) bool {
		return !slices.ContainsFunc(addressuse.InLedger(&host), func(ip string) bool {
			address, err := netip.ParseAddr(ip)
			return err == nil && addressuse.Contains(network.Spec, address) && !addressuse.OnAny(others, address)
		})
	}), nil
}

// networkDataWarnings warns about machines and templates whose networkData refers to the network:
// without it they get no host.
func (v *networkValidator) networkDataWarnings(ctx context.Context, network *v1beta2.IngotNetwork) admission.Warnings {
	machines, templates := &v1beta2.IngotMachineList{}, &v1beta2.IngotMachineTemplateList{}
	if v.reader.List(ctx, machines, client.UnsafeDisableDeepCopy) != nil || v.reader.List(ctx, templates, client.UnsafeDisableDeepCopy) != nil {
		return nil // only a warning is lost
	}
	var out []string
	add := func(kind string, object client.Object, data *v1beta2.NetworkData) {
		if slices.ContainsFunc(networkdata.ReservedAddressesIn(nil, data), func(r networkdata.ReservedAddress) bool { return r.Network == network.Name }) {
			out = append(out, fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName()))
		}
	}
	for i := range machines.Items {
		add("IngotMachine", &machines.Items[i], machines.Items[i].Spec.NetworkData)
	}
	for i := range templates.Items {
		add("IngotMachineTemplate", &templates.Items[i], templates.Items[i].Spec.Template.Spec.NetworkData)
	}
	if len(out) == 0 {
		return nil
	}
	slices.Sort(out)
	return admission.Warnings{fmt.Sprintf("metadata.name: networkData of %s refers to this network; such machines get no host until a network of that name exists", shorten(out))}
}
