// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// scope selects the hosts that a machine may use.
type scope struct {
	namespace string
	selector  labels.Selector
}

// unknownMACs checks the ethernets without a matching interface that select it by MAC address.
// Only one server has that address, so a warning about that server is more precise than one about
// all hosts. A server without inspection causes no warning. settled are the ethernets that need no
// other warning. path is the path of ethernets.
func (c Checker) unknownMACs(ctx context.Context, in scope, path *field.Path, data *v1beta2.NetworkData, misfits []int) (warnings []string, settled map[int]bool) {
	settled = map[int]bool{}
	allInspected := sync.OnceValues(func() (int, bool) { return c.allInspected(ctx, in.namespace) })
	for _, i := range misfits {
		mac := data.Ethernets[i].NIC.MAC
		if mac == "" || len(warnings) == maxNICWarnings {
			continue
		}
		owner, inspected, err := c.owner(ctx, in.namespace, mac)
		where := valued{path.Index(i).Child("nic", "mac"), fmt.Sprintf("%q", mac)}
		switch {
		case err != nil:
		case owner == nil:
			if hosts, ok := allInspected(); ok {
				settled[i] = true
				warnings = append(warnings, fmt.Sprintf("%s belongs to none of the %d hosts of namespace %s, which are all inspected; correct it, register its host, "+
					"or, if the interface is new, annotate that host with %s: its machines wait until then", where, hosts, in.namespace, inventory.CommandText(v1beta2.InspectAnnotation)))
			}
		case !in.selector.Matches(labels.Set(owner.Labels)):
			settled[i] = true
			warnings = append(warnings, fmt.Sprintf("%s belongs to IngotHost %s, which hostSelector does not match; correct one of them: its machines wait until then", where, owner.Name))
		case !inspected:
			settled[i] = true
		}
	}
	return warnings, settled
}

// owner returns the host of a namespace with an interface, by its inspection or its boot MAC
// address, and whether the host is inspected. It returns nil if there is none.
func (c Checker) owner(ctx context.Context, namespace, mac string) (*v1beta2.IngotHost, bool, error) {
	hardware := &v1beta2.IngotHardwareList{}
	err := c.Reader.List(ctx, hardware, client.InNamespace(namespace), client.MatchingFields{index.HardwareByNIC: mac}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, false, err
	}
	for i := range hardware.Items {
		host := &v1beta2.IngotHost{}
		err := c.Reader.Get(ctx, client.ObjectKeyFromObject(&hardware.Items[i]), host, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, false, err
		}
		if err == nil {
			return host, true, nil
		}
	}
	hosts := &v1beta2.IngotHostList{}
	err = c.Reader.List(ctx, hosts, client.InNamespace(namespace), client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy)
	if err != nil || len(hosts.Items) == 0 {
		return nil, false, err
	}
	facts := &v1beta2.IngotHardware{}
	err = c.Reader.Get(ctx, client.ObjectKeyFromObject(&hosts.Items[0]), facts, client.UnsafeDisableDeepCopy)
	return &hosts.Items[0], err == nil && inventory.IsInspected(facts), client.IgnoreNotFound(err)
}

// allInspected counts the hosts of a namespace, and reports whether all of them are inspected.
func (c Checker) allInspected(ctx context.Context, namespace string) (int, bool) {
	all, err := c.candidates(ctx, scope{namespace: namespace, selector: labels.Everything()})
	if err != nil {
		return 0, false
	}
	return len(all), !slices.ContainsFunc(all, func(c allocation.Candidate) bool { return !inventory.IsInspected(c.Hardware) })
}
