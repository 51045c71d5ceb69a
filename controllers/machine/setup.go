// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// SetupWithManager registers the reconciler. The indexes of package index are set
// up already.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", "ingotmachine")
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotMachineList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotMachine{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(
			util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("IngotMachine")))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log))).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfHost)).
		WithOptions(options).
		Complete(r)
}

// machinesOfHost maps a claimed host to its machine, and a host that can be
// claimed to the machines that wait for one.
func (r *Reconciler) machinesOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok {
		return nil
	}
	if host.Spec.Claim != nil {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.MachineRef.Name}}}
	}
	machines := &infrav1.IngotMachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(host.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the machines that wait for a host")
		return nil
	}
	free := conditions.IsTrue(host, infrav1.HostAvailableCondition)
	var requests []reconcile.Request
	for i := range machines.Items {
		machine := &machines.Items[i]
		id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
		if (err != nil && free) || (err == nil && id.Host == host.Name) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
		}
	}
	return requests
}
