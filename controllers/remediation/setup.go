// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
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

// SetupWithManager registers the reconciler. Remediations have no watch filter of their
// own: whose they are is asked of the IngotMachine (M41).
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotRemediationList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotRemediation{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.ofHost), builder.WithPredicates(claimChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options).
		Complete(r)
}

// claimChanged lets through the hosts whose claim or wishes changed; what a remediation
// waits for otherwise it looks at by itself.
func claimChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			host, ok := e.ObjectNew.(*infrav1.IngotHost)
			return ok && host.Spec.Claim != nil && e.ObjectOld.GetGeneration() != host.Generation
		},
	}
}

// ofMachine maps a Machine to the remediation of its name, if there is one: there are
// few remediations, and many Machines.
func (r *Reconciler) ofMachine(ctx context.Context, o client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(o)
	if err := r.Client.Get(ctx, key, &infrav1.IngotRemediation{}); err != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// ofHost maps a claimed host to the remediation of its Machine.
func (r *Reconciler) ofHost(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok || host.Spec.Claim == nil {
		return nil
	}
	machine := &infrav1.IngotMachine{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.MachineRef.Name}, machine); err != nil {
		return nil // the remediation looks by itself
	}
	for _, owner := range machine.OwnerReferences {
		if owner.Kind == "Machine" {
			return r.ofMachine(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: owner.Name}})
		}
	}
	return nil
}
