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
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// This file is what wakes the reconciler, and what does not (decision 0277): each time it
// looks at all hosts of the namespace, for each cluster there.

// offers lets through the hosts of which something else is made than before. Status does
// not count, nor most of what is written in the ledger while a host is installed or cleaned.
func offers() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotHost)
		after, isHost := e.ObjectNew.(*infrav1.IngotHost)
		return ok && isHost && !allocation.SameAvailability(before, after)
	}}
}

// comesOrGoes lets deletions through, which may be what a cluster waits for, and new
// machines of a control plane, which say what it asks for, and which host they choose.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ofControlPlane(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotMachine)
			after, isMachine := e.ObjectNew.(*infrav1.IngotMachine)
			return ok && isMachine && ofControlPlane(after) && before.Spec.ProviderID != after.Spec.ProviderID
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// promises lets through what changes which hosts are promised: a promise that comes,
// goes, or is another. What is left of it changes with every claim, and when it expires.
func promises() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotReservation)
		after, isReservation := e.ObjectNew.(*infrav1.IngotReservation)
		return ok && isReservation && (before.Generation != after.Generation || !ptr.Equal(before.Status.Outstanding, after.Status.Outstanding))
	}}
}

func ofControlPlane(o client.Object) bool {
	_, ok := o.GetLabels()[clusterv1.MachineControlPlaneLabel]
	return ok
}
