// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", "ingotcluster")
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotCluster{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			object, ok := o.(*infrav1.IngotCluster)
			return !ok || !isExternallyManaged(object)
		}))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(
			util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("IngotCluster"), r.Client, &infrav1.IngotCluster{})),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})). // paused, endpoint
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfHost), builder.WithPredicates(availabilityChanged())).
		Watches(&infrav1.IngotHardware{}, index.EnqueueDelayed(r.clustersOfHost), builder.WithPredicates(index.FactsChanged())).
		Watches(&infrav1.IngotMachine{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfMachine), builder.WithPredicates(machineChanged())).
		Watches(&infrav1.IngotReservation{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfNamespace), builder.WithPredicates(reservationChanged())).
		Watches(&infrav1.IngotImage{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfImage), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.IngotNetwork{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfNetwork), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithEventFilter(hardware.WatchFilter(mgr.GetScheme(), log, r.WatchFilterValue)).
		WithOptions(options).
		Complete(r)
}

// clusterOfMachine maps a control plane machine to the IngotClusters of its namespace, and another
// machine to those that are being deleted.
func (r *Reconciler) clusterOfMachine(ctx context.Context, o client.Object) []reconcile.Request {
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotClusterList{}, func(cluster *infrav1.IngotCluster) bool {
		return isControlPlane(o) || !cluster.DeletionTimestamp.IsZero()
	}, client.InNamespace(o.GetNamespace()))
}

// clustersOfHost maps a host or its hardware to the clusters that may use it, and to the clusters
// of all namespaces whose endpoint is its address.
func (r *Reconciler) clustersOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	requests := r.clustersOfNamespace(ctx, o)
	for _, address := range index.AddressesOf(o) {
		requests = append(requests, index.Requests(ctx, r.Client, &infrav1.IngotClusterList{}, client.MatchingFields{index.ClusterByEndpoint: address})...)
	}
	return requests
}

func (r *Reconciler) clustersOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return index.Requests(ctx, r.Client, &infrav1.IngotClusterList{}, client.InNamespace(o.GetNamespace()))
}

// clustersOfImage maps an image to the clusters of the namespaces in which a control plane machine
// uses it.
func (r *Reconciler) clustersOfImage(ctx context.Context, o client.Object) []reconcile.Request {
	return r.clustersWithControlPlane(ctx, func(machine *infrav1.IngotMachine) bool {
		return machine.Spec.ImageRef != nil && machine.Spec.ImageRef.Name == o.GetName()
	})
}

// clustersOfNetwork maps a network to the clusters of the namespaces in which a control plane
// machine has networkData.
func (r *Reconciler) clustersOfNetwork(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.clustersWithControlPlane(ctx, func(machine *infrav1.IngotMachine) bool { return machine.Spec.NetworkData != nil })
}

// clustersWithControlPlane returns the clusters of the namespaces in which a control plane machine
// meets the condition.
func (r *Reconciler) clustersWithControlPlane(ctx context.Context, meets func(*infrav1.IngotMachine) bool) []reconcile.Request {
	machines := index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		return isControlPlane(machine) && meets(machine)
	})
	namespaces := map[string]bool{}
	for _, machine := range machines {
		namespaces[machine.Namespace] = true
	}
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotClusterList{}, func(cluster *infrav1.IngotCluster) bool { return namespaces[cluster.Namespace] })
}
