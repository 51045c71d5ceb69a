// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// The predicates of this file are strict: each reconcile reads all hosts of the namespace.

// availabilityChanged passes hosts whose availability changed. It blocks status and most changes of
// claim, record and order during install and cleaning.
func availabilityChanged() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool { return !allocation.SameAvailability(before, after) })
}

// machineChanged passes deletions, new control plane machines, and changes of their provider ID.
func machineChanged() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotMachine) bool {
		return isControlPlane(after) && before.Spec.ProviderID != after.Spec.ProviderID
	})
	p.CreateFunc = func(e event.CreateEvent) bool { return isControlPlane(e.Object) }
	return p
}

// reservationChanged passes reservations that are created, deleted, or change spec or outstanding
// count.
func reservationChanged() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotReservation) bool {
		return before.Generation != after.Generation || !ptr.Equal(before.Status.Outstanding, after.Status.Outstanding)
	})
}

func isControlPlane(o client.Object) bool {
	_, ok := o.GetLabels()[clusterv1.MachineControlPlaneLabel]
	return ok
}
