// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
)

// name of the controller, and of its watches of Nodes.
const name = "ingotnode"

// SetupWithManager registers the reconciler. The indexes of package index must exist. clusters is
// the cache of r.Clusters.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", name)
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotMachineList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	r.controller, err = ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(&infrav1.IngotMachine{}, builder.WithPredicates(provisionedChanged())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(
			util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("IngotMachine"))), builder.WithPredicates(nodeRefChanged())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(ofHost), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&infrav1.IngotCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofIngotCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(clusters.GetClusterSource(name, ofCluster)).
		WithOptions(options).
		Build(r)
	return err
}

func (r *Reconciler) connect(ctx context.Context, cluster *clusterv1.Cluster) (client.Client, error) {
	key := client.ObjectKeyFromObject(cluster)
	workload, err := r.Clusters.GetClient(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("connect to workload cluster %s: %w", key, err)
	}
	err = r.Clusters.Watch(ctx, key, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: name, Watcher: r.controller, Kind: &corev1.Node{},
		EventHandler: handler.EnqueueRequestsFromMapFunc(r.ofNode(key)),
		Predicates:   []predicate.TypedPredicate[client.Object]{nodeChanged()},
	}))
	if err != nil {
		return nil, fmt.Errorf("watch Nodes of Cluster %s: %w", key, err)
	}
	return workload, nil
}

// provisionedChanged passes provisioned machines when they become so, and when their addresses or
// annotations (pause) change.
func provisionedChanged() predicate.Predicate {
	provisioned := func(o client.Object) bool {
		machine, ok := o.(*infrav1.IngotMachine)
		return ok && machine.Status.Initialization.Provisioned != nil && *machine.Status.Initialization.Provisioned
	}
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotMachine) bool {
		return provisioned(after) && (!provisioned(before) ||
			!slices.Equal(before.Status.Addresses, after.Status.Addresses) || !maps.Equal(before.Annotations, after.Annotations))
	})
	p.CreateFunc = func(e event.CreateEvent) bool { return provisioned(e.Object) }
	p.DeleteFunc = func(e event.DeleteEvent) bool { return provisioned(e.Object) } // to forget it
	return p
}

func nodeRefChanged() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *clusterv1.Machine) bool {
		return before.Status.NodeRef.Name != after.Status.NodeRef.Name
	})
	p.CreateFunc, p.DeleteFunc = kubeutil.Never, kubeutil.Never // the IngotMachine triggers a reconcile
	return p
}

func nodeChanged() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *corev1.Node) bool {
		return !maps.Equal(before.Labels, after.Labels) || before.Spec.ProviderID != after.Spec.ProviderID ||
			after.Spec.ProviderID == "" && before.Status.NodeInfo.SystemUUID != after.Status.NodeInfo.SystemUUID
	})
	p.DeleteFunc = kubeutil.Never
	return p
}

// ofNode maps a Node to its machine by the provider ID, and a Node without one to the machines of
// the cluster that it may belong to.
func (r *Reconciler) ofNode(cluster client.ObjectKey) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		if node.Spec.ProviderID == "" {
			return r.ofNodeWithoutID(ctx, cluster, node)
		}
		id, err := infrav1.ParseProviderID(node.Spec.ProviderID)
		if err != nil || id.Namespace != cluster.Namespace {
			return nil
		}
		return r.machines(ctx, cluster.Namespace, client.MatchingFields{index.MachineByHost: id.Namespace + "/" + id.Host})
	}
}

// ofNodeWithoutID maps a Node without a provider ID to the machines with its name or address; if
// there are none, to all machines of the cluster.
func (r *Reconciler) ofNodeWithoutID(ctx context.Context, cluster client.ObjectKey, node *corev1.Node) []reconcile.Request {
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
	alike := index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		return systemOfMachine(machine).SharesNameOrAddress(systemOf(node))
	}, client.InNamespace(cluster.Namespace), ofCluster)
	if len(alike) > 0 {
		return alike
	}
	return r.machines(ctx, cluster.Namespace, ofCluster)
}

func ofHost(_ context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*infrav1.IngotHost)
	if !ok || host.Spec.Claim == nil {
		return nil
	}
	return kubeutil.Request(host.Namespace, host.Spec.Claim.MachineRef.Name)
}

func (r *Reconciler) ofIngotCluster(ctx context.Context, o client.Object) []reconcile.Request {
	cluster := o.GetLabels()[clusterv1.ClusterNameLabel]
	if cluster == "" {
		if ref := inventory.FindOwner(o, clusterv1.GroupVersion.WithKind("Cluster").GroupKind()); ref != nil {
			cluster = ref.Name
		}
	}
	if cluster == "" {
		return nil
	}
	return r.machines(ctx, o.GetNamespace(), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
}

func (r *Reconciler) machines(ctx context.Context, namespace string, which client.ListOption) []reconcile.Request {
	return index.Requests(ctx, r.Client, &infrav1.IngotMachineList{}, client.InNamespace(namespace), which)
}
