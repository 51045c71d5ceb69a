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
	"github.com/ingot-metal/ingot/inventory"
)

// name of the controller, and of its watches of Nodes.
const name = "ingotnode"

// SetupWithManager registers the reconciler. The indexes of package index are set up
// already; clusters is the cache behind r.Clusters.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", name)
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IngotMachineList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	r.controller, err = ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(&infrav1.IngotMachine{}, builder.WithPredicates(provisions())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(
			util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("IngotMachine"))), builder.WithPredicates(findsNode())).
		Watches(&infrav1.IngotHost{}, handler.EnqueueRequestsFromMapFunc(ofHost), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&infrav1.IngotCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofIngotCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(clusters.GetClusterSource(name, ofCluster)).
		WithOptions(options).
		Build(r)
	return err
}

// connect gives a client of the workload cluster, whose Nodes are watched from then on.
func (r *Reconciler) connect(ctx context.Context, cluster *clusterv1.Cluster) (client.Client, error) {
	key := client.ObjectKeyFromObject(cluster)
	workload, err := r.Clusters.GetClient(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("workload cluster %s: %w", key, err)
	}
	err = r.Clusters.Watch(ctx, key, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: name, Watcher: r.controller, Kind: &corev1.Node{},
		EventHandler: handler.EnqueueRequestsFromMapFunc(r.ofNode(key)),
		Predicates:   []predicate.TypedPredicate[client.Object]{strays()},
	}))
	if err != nil {
		return nil, fmt.Errorf("nodes of cluster %s: %w", key, err)
	}
	return workload, nil
}

// provisions lets through the machines whose system is installed, when that changes, or
// what its Node is known by, or a pause.
func provisions() predicate.Predicate {
	provisioned := func(o client.Object) bool {
		machine, ok := o.(*infrav1.IngotMachine)
		return ok && machine.Status.Initialization.Provisioned != nil && *machine.Status.Initialization.Provisioned
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return provisioned(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotMachine)
			after, isMachine := e.ObjectNew.(*infrav1.IngotMachine)
			return ok && isMachine && provisioned(after) && (!provisioned(before) ||
				!slices.Equal(before.Status.Addresses, after.Status.Addresses) || !maps.Equal(before.Annotations, after.Annotations))
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return provisioned(e.Object) }, // to forget it
	}
}

// findsNode lets through the Machines whose Node Cluster API has found.
func findsNode() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // the IngotMachine comes as well
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.Machine)
			after, isMachine := e.ObjectNew.(*clusterv1.Machine)
			return ok && isMachine && before.Status.NodeRef.Name != after.Status.NodeRef.Name
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// strays lets through the Nodes that are new, or of which somebody has changed what is
// looked after here.
func strays() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, isNode := e.ObjectNew.(*corev1.Node)
			return ok && isNode && (!maps.Equal(before.Labels, after.Labels) || before.Spec.ProviderID != after.Spec.ProviderID ||
				after.Spec.ProviderID == "" && before.Status.NodeInfo.SystemUUID != after.Status.NodeInfo.SystemUUID)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// ofNode maps a Node of a cluster to its machine by the provider ID, and one that has
// none to those machines of the cluster that it could be.
func (r *Reconciler) ofNode(cluster client.ObjectKey) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		if node.Spec.ProviderID == "" {
			return r.ofNameless(ctx, cluster, node)
		}
		id, err := infrav1.ParseProviderID(node.Spec.ProviderID)
		if err != nil || id.Namespace != cluster.Namespace {
			return nil
		}
		return r.machines(ctx, cluster.Namespace, client.MatchingFields{index.MachineByHost: id.Namespace + "/" + id.Host})
	}
}

// ofNameless maps a Node that has no provider ID to the machines whose name or address it
// has, and if there are none to all of the cluster, which then look at it once. All would
// look at each of as many Nodes.
func (r *Reconciler) ofNameless(ctx context.Context, cluster client.ObjectKey, node *corev1.Node) []reconcile.Request {
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
	alike := index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		return systemOfMachine(machine).Alike(systemOf(node))
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
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.MachineRef.Name}}}
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
