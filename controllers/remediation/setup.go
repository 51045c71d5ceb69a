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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
)

// SetupWithManager registers the reconciler. The watch filter applies to the IngotMachine, not to
// the remediation (M41). clusters is the cache of r.Workloads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotRemediationList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotRemediation{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).
		Watches(&infrav1.IngotMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofInfraMachine), builder.WithPredicates(annotationsChanged())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(r.ofHost), builder.WithPredicates(hostChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(clusters.GetClusterSource("ingotremediation", ofCluster)).
		WithOptions(options).
		Complete(r)
}

// hostChanged passes claimed hosts whose spec, annotations (pause) or first boot changed. A removed
// claim is in the old object.
func hostChanged() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool {
		return (before.Spec.Claim != nil || after.Spec.Claim != nil) &&
			(before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
				!equality.Semantic.DeepEqual(before.Status.Booted, after.Status.Booted))
	})
	p.CreateFunc = kubeutil.Never
	return p
}

func annotationsChanged() predicate.Predicate {
	return predicate.And(predicate.AnnotationChangedPredicate{}, predicate.Funcs{CreateFunc: kubeutil.Never[event.CreateEvent]})
}

func (r *Reconciler) ofMachine(ctx context.Context, o client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(o)
	if err := r.Client.Get(ctx, key, &infrav1.IngotRemediation{}); err != nil {
		return nil
	}
	return kubeutil.Request(key.Namespace, key.Name)
}

func (r *Reconciler) ofHost(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok || host.Spec.Claim == nil {
		return nil
	}
	machine := &infrav1.IngotMachine{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.MachineRef.Name}, machine); err != nil {
		return nil // the remediation also reconciles periodically
	}
	return r.ofInfraMachine(ctx, machine)
}

func (r *Reconciler) ofInfraMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	if ref := inventory.FindOwner(machine, machineKind()); ref != nil {
		return r.ofMachine(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.GetNamespace(), Name: ref.Name}})
	}
	return nil
}
