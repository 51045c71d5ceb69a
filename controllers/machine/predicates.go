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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// ignoreOwnerConditions blocks changes of a Machine's conditions: Cluster API copies the
// conditions of the IngotMachine into them.
func ignoreOwnerConditions() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *clusterv1.Machine) bool {
		return before.ResourceVersion == after.ResourceVersion ||
			!equality.Semantic.DeepEqual(withoutConditions(before), withoutConditions(after))
	})
}

func withoutConditions(owner *clusterv1.Machine) *clusterv1.Machine {
	out := owner.DeepCopy()
	out.ResourceVersion, out.ManagedFields = "", nil
	out.Status.Conditions, out.Status.Deprecated = nil, nil
	return out
}

// affectsMachine passes all changes of claimed hosts. Of free hosts it passes changes that may
// matter to the machine that selected the host, and blocks the rest of their status.
func affectsMachine() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool {
		return before.Spec.Claim != nil || after.Spec.Claim != nil ||
			isClaimable(before) != isClaimable(after) || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels)
	})
}

// becameClaimable passes hosts that became claimable, and claimable hosts whose spec or labels
// changed.
func becameClaimable() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool {
		return isClaimable(after) && (!isClaimable(before) || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels))
	})
	p.CreateFunc = func(e event.CreateEvent) bool {
		host, ok := e.Object.(*infrav1.IngotHost)
		return ok && isClaimable(host)
	}
	p.DeleteFunc = kubeutil.Never
	return p
}

// capacityReleased passes reservations that release capacity: their spec changes, they end, or
// their outstanding count falls by more than their Cluster claimed. A decrease by claims
// releases nothing, and passing it would make each waiting machine scan all hosts just when
// many machines claim.
func capacityReleased() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotReservation) bool {
		released := ptr.Deref(before.Status.Outstanding, 0) - ptr.Deref(after.Status.Outstanding, 0)
		claimed := ptr.Deref(after.Status.Claimed, 0) - ptr.Deref(before.Status.Claimed, 0)
		return before.Generation != after.Generation || released > max(claimed, 0)
	})
	p.CreateFunc = kubeutil.Never
	return p
}

func isClaimable(host *infrav1.IngotHost) bool {
	ok, _ := lifecycle.IsClaimable(host)
	return ok
}
