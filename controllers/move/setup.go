// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
)

// SetupWithManager registers the reconciler. Its requests name namespaces.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("move").
		Watches(&clusterv1.Cluster{}, namespaceOf(), builder.WithPredicates(pauseChanged())).
		Watches(&infrav1.IngotHost{}, namespaceOf(), builder.WithPredicates(hostChanged())).
		Watches(&infrav1.IngotMachine{}, r.namespaceOfWaiting(), builder.WithPredicates(providerIDChanged())).
		WithOptions(options).
		Complete(r)
}

func namespaceOf() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return kubeutil.Request("", o.GetNamespace())
	})
}

// namespaceOfWaiting maps a machine to its namespace if its host is paused for a move.
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
			return nil // the creation of the host triggers a reconcile
		}
		if _, waits := host.Annotations[infrav1.MovePausedAnnotation]; !waits {
			return nil
		}
		return kubeutil.Request("", machine.Namespace)
	})
}

func pauseChanged() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *clusterv1.Cluster) bool {
		return ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false)
	})
}

// hostChanged passes new hosts and changes of the input of Decide.
func hostChanged() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool { return decisionInput(before) != decisionInput(after) })
	p.DeleteFunc = kubeutil.Never
	return p
}

// decisionInput is a text of all fields that Decide reads of a host.
func decisionInput(host *infrav1.IngotHost) string {
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

func providerIDChanged() predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotMachine) bool { return before.Spec.ProviderID != after.Spec.ProviderID })
	p.DeleteFunc = kubeutil.Never
	return p
}
