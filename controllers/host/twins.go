// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// twins finds the other hosts that are the same server: by boot MAC address, by
// the system at the BMC, and, once inspected, by UUID and serial number (I8).
func (r *Reconciler) twins(ctx context.Context, host *infrav1.IngotHost, hardware *infrav1.IngotHardware) ([]*infrav1.IngotHost, error) {
	var twins []*infrav1.IngotHost
	for _, same := range []struct {
		field, value string
		is           func(*infrav1.IngotHost) bool
	}{
		{index.HostByMAC, host.Spec.BootMACAddress, func(*infrav1.IngotHost) bool { return true }},
		{index.HostByBMC, index.BMC(host), func(other *infrav1.IngotHost) bool { return index.SameBMC(host, other) }},
	} {
		if same.value == "" {
			continue
		}
		hosts := &infrav1.IngotHostList{}
		if err := r.Client.List(ctx, hosts, client.MatchingFields{same.field: same.value}); err != nil {
			return nil, fmt.Errorf("hosts with the same %s: %w", same.field, err)
		}
		for i := range hosts.Items {
			if other := &hosts.Items[i]; keyOf(other) != keyOf(host) && same.is(other) && !hasLeft(other) {
				twins = append(twins, other)
			}
		}
	}
	if hardware == nil {
		return twins, nil
	}
	more, err := r.ofSameSystem(ctx, hardware)
	return append(twins, more...), err
}

// leaves: clusterctl takes the host to another management cluster, where it is one of those
// there.
func leaves(host *infrav1.IngotHost) bool {
	_, moved := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return moved
}

// hasLeft: it is no twin, unless it is in use: then whoever marked it so has not taken it
// away yet, or is no clusterctl.
func hasLeft(host *infrav1.IngotHost) bool { return leaves(host) && host.Spec.Claim == nil }

// twinsWithFacts finds them by the facts that are kept of the host, too.
func (r *Reconciler) twinsWithFacts(ctx context.Context, host *infrav1.IngotHost) ([]*infrav1.IngotHost, error) {
	hardware := &infrav1.IngotHardware{}
	err := r.Client.Get(ctx, keyOf(host), hardware)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("hardware of %s: %w", keyOf(host), err)
	}
	if err != nil {
		hardware = nil
	}
	twins, err := r.twins(ctx, host, hardware)
	if err != nil {
		return nil, err
	}
	byName, err := r.samePeer(ctx, host)
	return append(twins, byName...), err
}

// ofSameSystem finds the other hosts whose firmware tells the same UUID and serial number.
func (r *Reconciler) ofSameSystem(ctx context.Context, hardware *infrav1.IngotHardware) ([]*infrav1.IngotHost, error) {
	system := index.System(hardware)
	if system == "" {
		return nil, nil
	}
	list := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{index.HardwareBySystem: system}); err != nil {
		return nil, fmt.Errorf("hosts with the same UUID and serial number: %w", err)
	}
	var hosts []*infrav1.IngotHost
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		if key == client.ObjectKeyFromObject(hardware) {
			continue
		}
		host := &infrav1.IngotHost{}
		err := r.Client.Get(ctx, key, host)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("host of the same system: %w", err)
		}
		if err == nil && !ofAnother(host, &list.Items[i]) && !hasLeft(host) { // what a deleted host left behind is no twin
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// twinsOf maps a host that comes, goes or changes its identity to its twins, so
// that neither is used a moment longer, nor waits once the other is gone.
func (r *Reconciler) twinsOf() (handler.EventHandler, predicate.Predicate) {
	mapper := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		host, ok := o.(*infrav1.IngotHost)
		if !ok {
			return nil
		}
		twins, err := r.twinsWithFacts(ctx, host)
		return r.asRequests(ctx, twins, err)
	})
	return mapper, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotHost)
		after, both := e.ObjectNew.(*infrav1.IngotHost)
		return ok && both && (before.Spec.BootMACAddress != after.Spec.BootMACAddress || bmcAddress(before) != bmcAddress(after) ||
			isEnrolled(before) != isEnrolled(after) || leaves(before) != leaves(after) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
	}}
}

// counts says whether a twin keeps the host from being used. What an unknown machine
// says of itself disables no server that a person registered: until it is approved, an
// enrolled host is only shown as the duplicate that it is.
func counts(host, twin *infrav1.IngotHost) bool { return isEnrolled(host) || !isEnrolled(twin) }

// isEnrolled says whether the host waits for a person's approval. One that is in the
// ledger does not, whoever labels it.
func isEnrolled(host *infrav1.IngotHost) bool {
	_, enrolled := host.Labels[infrav1.EnrolledLabel]
	return enrolled && host.Spec.Claim == nil && host.Spec.Record == nil && host.Spec.Order == nil
}

// bmcAddress is the whole address: the twins of one system of a BMC, or of another
// way to it, differ.
func bmcAddress(host *infrav1.IngotHost) string {
	if host.Spec.BMC == nil {
		return ""
	}
	return host.Spec.BMC.Address
}

// twinsOfHardware does the same for what the agent found.
func (r *Reconciler) twinsOfHardware() (handler.EventHandler, predicate.Predicate) {
	mapper := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		hardware, ok := o.(*infrav1.IngotHardware)
		if !ok {
			return nil
		}
		twins, err := r.ofSameSystem(ctx, hardware)
		return r.asRequests(ctx, twins, err)
	})
	return mapper, predicate.GenerationChangedPredicate{}
}

func (r *Reconciler) asRequests(ctx context.Context, hosts []*infrav1.IngotHost, err error) []reconcile.Request {
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not look for hosts that are the same server")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(hosts))
	for _, host := range hosts {
		requests = append(requests, reconcile.Request{NamespacedName: keyOf(host)})
	}
	return requests
}
