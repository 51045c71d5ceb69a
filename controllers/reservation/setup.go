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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotReservation{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&infrav1.IngotMachine{}, handler.EnqueueRequestsFromMapFunc(ofMachine), builder.WithPredicates(shrinks())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(ofHost), builder.WithPredicates(claims())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		WithOptions(options).
		Complete(r)
}

// ofMachine maps a machine to the reservation of its Cluster.
func ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	cluster := o.GetLabels()[clusterv1.ClusterNameLabel]
	if cluster == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: cluster}}}
}

// ofHost maps a host to the reservation of the Cluster that has claimed it.
func ofHost(_ context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok || host.Spec.Claim == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.ClusterName}}}
}

// claims lets through hosts that have just been claimed: a promise ends by it.
func claims() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotHost)
		after, isHost := e.ObjectNew.(*infrav1.IngotHost)
		return ok && isHost && after.Spec.Claim != nil && (before.Spec.Claim == nil || before.Spec.Claim.InstanceID != after.Spec.Claim.InstanceID)
	}}
}

func ofCluster(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// shrinks lets through what changes what is left of a promise: a machine that chose its
// host, gave it back, or goes.
func shrinks() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotMachine)
		after, isMachine := e.ObjectNew.(*infrav1.IngotMachine)
		return ok && isMachine && (before.Spec.ProviderID != after.Spec.ProviderID ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
	}}
}
