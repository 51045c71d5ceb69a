// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
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
	"github.com/ingot-metal/ingot/inventory"
)

// SetupWithManager registers the reconciler. Remediations have no watch filter of their
// own: whose they are is asked of the IngotMachine (M41). clusters is the cache behind
// r.Workloads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotRemediationList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotRemediation{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).
		Watches(&infrav1.IngotMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofInfraMachine), builder.WithPredicates(annotated())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.ofHost), builder.WithPredicates(hostChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(clusters.GetClusterSource("ingotremediation", ofCluster)).
		WithOptions(options).
		Complete(r)
}

// hostChanged lets through the claimed hosts whose claim or wishes changed, a pause too, or
// whose system has booted. A claim that is taken away is found by what the host was.
func hostChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotHost)
			after, isHost := e.ObjectNew.(*infrav1.IngotHost)
			return ok && isHost && (before.Spec.Claim != nil || after.Spec.Claim != nil) &&
				(before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
					!equality.Semantic.DeepEqual(before.Status.Booted, after.Status.Booted))
		},
	}
}

// annotated lets through the IngotMachines whose annotations changed: a pause.
func annotated() predicate.Predicate {
	return predicate.And(predicate.AnnotationChangedPredicate{}, predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
	})
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
	return r.ofInfraMachine(ctx, machine)
}

// ofInfraMachine maps an IngotMachine to the remediation of its Machine.
func (r *Reconciler) ofInfraMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	if ref := inventory.FindOwner(machine, machineKind()); ref != nil {
		return r.ofMachine(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.GetNamespace(), Name: ref.Name}})
	}
	return nil
}
