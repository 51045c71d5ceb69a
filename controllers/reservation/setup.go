// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotReservation{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&infrav1.IngotMachine{}, handler.EnqueueRequestsFromMapFunc(ofMachine), builder.WithPredicates(selectionChanged())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(ofHost), builder.WithPredicates(wasClaimed())).
		Watches(&clusterv1.Cluster{}, &handler.EnqueueRequestForObject{}).
		WithOptions(options).
		Complete(r)
}

func ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	cluster := o.GetLabels()[clusterv1.ClusterNameLabel]
	if cluster == "" {
		return nil
	}
	return kubeutil.Request(o.GetNamespace(), cluster)
}

func ofHost(_ context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok || host.Spec.Claim == nil {
		return nil
	}
	return kubeutil.Request(host.Namespace, host.Spec.Claim.ClusterName)
}

func wasClaimed() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool {
		return after.Spec.Claim != nil && (before.Spec.Claim == nil || before.Spec.Claim.InstanceID != after.Spec.Claim.InstanceID)
	})
}

// selectionChanged passes machines that selected a host, cleared the selection, or are being
// deleted.
func selectionChanged() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotMachine) bool {
		return before.Spec.ProviderID != after.Spec.ProviderID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	})
}
