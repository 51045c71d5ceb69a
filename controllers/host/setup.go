// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/internal/networkuse"
)

// SetupWithManager registers the reconciler. The indexes of package index are set
// up already.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	twins, identity := r.twinsOf()
	found, facts := r.twinsOfHardware()
	if err := mgr.Add(&r.works); err != nil {
		return err
	}
	log := mgr.GetLogger().WithValues("controller", "ingothost")
	b := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotHost{}, builder.WithPredicates(specChanged(), predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Owns(&infrav1.IngotHardware{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.IngotHost{}, twins, builder.WithPredicates(identity)).
		Watches(&infrav1.IngotHardware{}, found, builder.WithPredicates(facts)).
		Watches(&corev1.Secret{}, r.hostsBy(index.HostByCredentials), builder.WithPredicates(dataChanged())).
		Watches(&corev1.Secret{}, r.hostsBy(index.HostByCASecret), builder.WithPredicates(dataChanged())).
		Watches(&corev1.ConfigMap{}, r.hostsBy(index.HostByCABundle), builder.WithPredicates(dataChanged())).
		Watches(&infrav1.IngotMachine{}, r.hostsBy(index.HostByMachine), builder.WithPredicates(comesOrGoes())).
		Watches(&infrav1.IngotNetwork{}, r.hostsByNetwork(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(networkuse.Namespace(), r.hostsOfNamespace(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, r.hostsOfCluster(), builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(source.Func(r.wakes.start)).
		WithOptions(options)
	if pool.Installed(mgr.GetRESTMapper()) { // where it comes later, claims are looked at by the polls
		b = b.Owns(&ipamv1.IPAddressClaim{})
	}
	return b.Complete(r)
}

// specChanged lets spec, labels, annotations and deletion through, and holds back
// the agent's progress in status, which changes nothing that is decided.
func specChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: statusLost},
	)
}

// statusLost says whether the status was emptied: it is filled again at once.
func statusLost(e event.UpdateEvent) bool {
	host, ok := e.ObjectNew.(*infrav1.IngotHost)
	return ok && host.Status.Phase == ""
}

// comesOrGoes lets through what changes whether a claim's machine is there, and
// whether it means the claim.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotMachine)
		after, both := e.ObjectNew.(*infrav1.IngotMachine)
		return ok && both && (before.Spec.ProviderID != after.Spec.ProviderID ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
	}}
}

// dataChanged holds back a change of labels or owners: hundreds of hosts may share
// a Secret, and each of them adopts it.
func dataChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		switch after := e.ObjectNew.(type) {
		case *corev1.Secret:
			before, ok := e.ObjectOld.(*corev1.Secret)
			return !ok || !equality.Semantic.DeepEqual(before.Data, after.Data)
		case *corev1.ConfigMap:
			before, ok := e.ObjectOld.(*corev1.ConfigMap)
			return !ok || !equality.Semantic.DeepEqual(before.Data, after.Data)
		}
		return true
	}}
}

// hostsBy maps an object to the hosts that name it, by index.
func (r *Reconciler) hostsBy(field string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.Requests(ctx, r.Client, &infrav1.IngotHostList{}, client.MatchingFields{field: o.GetNamespace() + "/" + o.GetName()})
	})
}

func (r *Reconciler) hostsByNetwork() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.Requests(ctx, r.Client, &infrav1.IngotHostList{}, client.MatchingFields{index.HostByNetwork: o.GetName()})
	})
}

// hostsOfNamespace maps a namespace to its hosts: its labels say on which networks they boot.
func (r *Reconciler) hostsOfNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.Requests(ctx, r.Client, &infrav1.IngotHostList{}, client.InNamespace(o.GetName()))
	})
}

// hostsOfCluster maps a Cluster to the hosts that its machines claim.
func (r *Reconciler) hostsOfCluster() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.RequestsIf(ctx, r.Client, &infrav1.IngotHostList{}, func(host *infrav1.IngotHost) bool {
			return host.Spec.Claim != nil && host.Spec.Claim.ClusterName == o.GetName()
		}, client.InNamespace(o.GetNamespace()))
	})
}
