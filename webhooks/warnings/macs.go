// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
)

// scope is what of the inventory a machine may be given.
type scope struct {
	namespace string
	selector  labels.Selector
}

// strays judges the ethernets that no inspected host has an interface for and that name it
// by its MAC address, which one server alone has. What is known of that server is a better
// word than any about other hosts; where it is not inspected yet, there is nothing to say.
// settled are the ethernets judged. path leads to ethernets.
func (o Outlook) strays(ctx context.Context, in scope, path *field.Path, data *v1beta2.NetworkData, misfits []int) (warnings []string, settled map[int]bool) {
	settled = map[int]bool{}
	allInspected := sync.OnceValues(func() (int, bool) { return o.allInspected(ctx, in.namespace) })
	for _, i := range misfits {
		mac := data.Ethernets[i].NIC.MAC
		if mac == "" || len(warnings) == maxTold {
			continue
		}
		owner, inspected, err := o.owner(ctx, in.namespace, mac)
		where := valued{path.Index(i).Child("nic", "mac"), fmt.Sprintf("%q", mac)}
		switch {
		case err != nil:
		case owner == nil:
			if hosts, ok := allInspected(); ok {
				settled[i] = true
				warnings = append(warnings, fmt.Sprintf("%s is of none of the %d hosts of namespace %s, all of which are inspected; correct it, register its host, "+
					"or, where the interface was put in since, annotate that host with %s, until then its machines wait", where, hosts, in.namespace, inventory.CommandText(v1beta2.InspectAnnotation)))
			}
		case !in.selector.Matches(labels.Set(owner.Labels)):
			settled[i] = true
			warnings = append(warnings, fmt.Sprintf("%s is of IngotHost %s, which hostSelector does not match; correct one of both, until then its machines wait", where, owner.Name))
		case !inspected:
			settled[i] = true
		}
	}
	return warnings, settled
}

// owner is the host of a namespace that has an interface, by its inspection or by the
// address that it is registered to boot from; nil: none has.
func (o Outlook) owner(ctx context.Context, namespace, mac string) (*v1beta2.IngotHost, bool, error) {
	hardware := &v1beta2.IngotHardwareList{}
	err := o.Reader.List(ctx, hardware, client.InNamespace(namespace), client.MatchingFields{index.HardwareByNIC: mac}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, false, err
	}
	for i := range hardware.Items {
		host := &v1beta2.IngotHost{}
		err := o.Reader.Get(ctx, client.ObjectKeyFromObject(&hardware.Items[i]), host, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, false, err
		}
		if err == nil {
			return host, true, nil
		}
	}
	hosts := &v1beta2.IngotHostList{}
	err = o.Reader.List(ctx, hosts, client.InNamespace(namespace), client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy)
	if err != nil || len(hosts.Items) == 0 {
		return nil, false, err
	}
	facts := &v1beta2.IngotHardware{}
	err = o.Reader.Get(ctx, client.ObjectKeyFromObject(&hosts.Items[0]), facts, client.UnsafeDisableDeepCopy)
	return &hosts.Items[0], err == nil && inventory.Inspected(facts), client.IgnoreNotFound(err)
}

// allInspected counts the hosts of a namespace, and says whether the hardware of each is
// known.
func (o Outlook) allInspected(ctx context.Context, namespace string) (int, bool) {
	all, err := o.candidates(ctx, scope{namespace: namespace, selector: labels.Everything()})
	if err != nil {
		return 0, false
	}
	for _, candidate := range all {
		if !inventory.Inspected(candidate.Hardware) {
			return 0, false
		}
	}
	return len(all), true
}
