// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file is what wakes the reconciler, and what does not (decision 0277).

// ignoreOwnerConditions holds back changes of a Machine's conditions. Cluster API copies into them
// what its IngotMachine says, and nothing here looks at them.
func ignoreOwnerConditions() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Machine)
		after, isMachine := e.ObjectNew.(*clusterv1.Machine)
		if !ok || !isMachine || before.ResourceVersion == after.ResourceVersion {
			return true
		}
		return !equality.Semantic.DeepEqual(unconditional(before), unconditional(after))
	}}
}

// unconditional is a Machine without conditions, old and new.
func unconditional(owner *clusterv1.Machine) *clusterv1.Machine {
	mute := owner.DeepCopy()
	mute.ResourceVersion, mute.ManagedFields = "", nil
	mute.Status.Conditions, mute.Status.Deprecated = nil, nil
	return mute
}

// affectsMachine lets through what a machine shows of its host, and what changes whether a
// host without a claim suits the machine that has chosen it: not every status of a free host.
func affectsMachine() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotHost)
		after, isHost := e.ObjectNew.(*infrav1.IngotHost)
		if !ok || !isHost || before.Spec.Claim != nil || after.Spec.Claim != nil {
			return true
		}
		return claimable(before) != claimable(after) || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels)
	}}
}

// becameClaimable lets through the hosts that can be claimed, when that is new, or whom they suit.
// What is claimed, or kept from machines, is nothing to those that wait.
func becameClaimable() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			host, ok := e.Object.(*infrav1.IngotHost)
			return ok && claimable(host)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotHost)
			after, isHost := e.ObjectNew.(*infrav1.IngotHost)
			return ok && isHost && claimable(after) &&
				(!claimable(before) || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels))
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// capacityReleased lets through what may leave a host to others: a promise that ends, asks for
// less, or shrinks by more than the hosts that its Cluster has claimed. One that shrinks
// by a claim leaves nothing to anybody, and to look at all hosts for each machine that
// waits would be dear just while many claim.
func capacityReleased() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotReservation)
			after, isReservation := e.ObjectNew.(*infrav1.IngotReservation)
			if !ok || !isReservation {
				return false
			}
			fell := ptr.Deref(before.Status.Outstanding, 0) - ptr.Deref(after.Status.Outstanding, 0)
			claimed := ptr.Deref(after.Status.Claimed, 0) - ptr.Deref(before.Status.Claimed, 0)
			return before.Generation != after.Generation || fell > max(claimed, 0)
		},
	}
}

// claimable is what a choice asks of any host, and asks again when it claims one.
func claimable(host *infrav1.IngotHost) bool {
	ok, _ := lifecycle.Claimable(host)
	return ok
}
