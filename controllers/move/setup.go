// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
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

// SetupWithManager registers the reconciler, which is keyed by namespace.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("move").
		Watches(&clusterv1.Cluster{}, namespaceOf(), builder.WithPredicates(pauseChanges())).
		Watches(&infrav1.IngotHost{}, namespaceOf(), builder.WithPredicates(standChanges())).
		Watches(&infrav1.IngotMachine{}, r.namespaceOfWaiting(), builder.WithPredicates(namesHost())).
		WithOptions(options).
		Complete(r)
}

// namespaceOf maps an object to its namespace: one key, however many hosts change.
func namespaceOf() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
}

// namespaceOfWaiting maps a machine to its namespace if the host that it names waits
// for it.
func (r *Reconciler) namespaceOfWaiting() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		machine, ok := o.(*infrav1.IngotMachine)
		if !ok {
			return nil
		}
		id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
		if err != nil || id.Namespace != machine.Namespace {
			return nil
		}
		host := &infrav1.IngotHost{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, host); err != nil {
			return nil // the host's own arrival brings the namespace up
		}
		if _, waits := host.Annotations[infrav1.MovePausedAnnotation]; !waits {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: machine.Namespace}}}
	})
}

// pauseChanges lets through Clusters that come, go, are paused or unpaused.
func pauseChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, both := e.ObjectNew.(*clusterv1.Cluster)
		return ok && both && ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false)
	}}
}

// standChanges lets through hosts that come, and those of which somebody changed what
// the decision depends on: the two annotations, or the claim of a host that waits.
func standChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotHost)
			after, both := e.ObjectNew.(*infrav1.IngotHost)
			return ok && both && stand(before) != stand(after)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// stand sums up what Decide reads of a host.
func stand(host *infrav1.IngotHost) string {
	var out strings.Builder
	_, paused := host.Annotations[infrav1.MovePausedAnnotation]
	for _, name := range []string{infrav1.MovePausedAnnotation, clusterctlv1.BlockMoveAnnotation, clusterctlv1.DeleteForMoveAnnotation} {
		if _, annotated := host.Annotations[name]; annotated {
			out.WriteString(name + " ")
		}
	}
	if paused && !host.DeletionTimestamp.IsZero() {
		out.WriteString("deleted ")
	}
	out.WriteString(host.Labels[clusterv1.WatchLabel])
	if claim := host.Spec.Claim; paused && claim != nil {
		out.WriteString(" " + claim.MachineRef.Name + " " + claim.InstanceID + " " + string(claim.State))
	}
	return out.String()
}

// namesHost lets through machines that come, or name another host than before.
func namesHost() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotMachine)
			after, both := e.ObjectNew.(*infrav1.IngotMachine)
			return ok && both && before.Spec.ProviderID != after.Spec.ProviderID
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
