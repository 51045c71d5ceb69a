// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
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
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// SetupWithManager registers the reconciler. The indexes of package index must exist.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", "ingotmachine")
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotMachineList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotMachine{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(
			util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("IngotMachine"))), builder.WithPredicates(ignoreOwnerConditions())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log))).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfHost), builder.WithPredicates(affectsMachine())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.machinesThatWait), builder.WithPredicates(becameClaimable())).
		Watches(&infrav1.IngotHardware{}, handler.EnqueueRequestsFromMapFunc(r.machineOfHardware),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})). // reported addresses
		Watches(&infrav1.IngotReservation{}, handler.EnqueueRequestsFromMapFunc(r.machinesWithoutHost),
			builder.WithPredicates(capacityReleased())).
		Watches(&infrav1.IngotImage{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfImage),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.IngotNetwork{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfNetwork),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithEventFilter(hardware.WatchFilter(mgr.GetScheme(), log, r.WatchFilterValue)).
		WithOptions(options)
	if pool.Installed(mgr.GetRESTMapper()) { // if the IPAM CRDs are installed later, machines retry
		b = b.Owns(&ipamv1.IPAddressClaim{})
	}
	return b.Complete(r)
}

// machinesOfHost maps a claimed host to its machine, and a free host to the machine that
// selected it.
func (r *Reconciler) machinesOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok {
		return nil
	}
	if host.Spec.Claim != nil {
		return kubeutil.Request(host.Namespace, host.Spec.Claim.MachineRef.Name)
	}
	return index.Requests(ctx, r.Client, &infrav1.IngotMachineList{}, client.InNamespace(host.Namespace),
		client.MatchingFields{index.MachineByHost: host.Namespace + "/" + host.Name})
}

// machinesThatWait maps a claimable host to the waiting machines whose selector matches its
// labels.
func (r *Reconciler) machinesThatWait(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok || !isClaimable(host) {
		return nil
	}
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		return allocation.SelectsLabels(machine.Spec.HostSelector, host.Labels)
	}, client.InNamespace(host.Namespace), client.MatchingFields{index.MachineWithoutHost: host.Namespace})
}

func (r *Reconciler) machinesWithoutHost(ctx context.Context, o client.Object) []reconcile.Request {
	return index.Requests(ctx, r.Client, &infrav1.IngotMachineList{}, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.MachineWithoutHost: o.GetNamespace()})
}

func (r *Reconciler) machinesOfImage(ctx context.Context, o client.Object) []reconcile.Request {
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		ref := machine.Spec.ImageRef
		return machine.Spec.ProviderID == "" && ref != nil && ref.Name == o.GetName()
	})
}

func (r *Reconciler) machineOfHardware(ctx context.Context, o client.Object) []reconcile.Request {
	host := &infrav1.IngotHost{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), host); err != nil || host.Spec.Claim == nil {
		return nil
	}
	return kubeutil.Request(host.Namespace, host.Spec.Claim.MachineRef.Name)
}
