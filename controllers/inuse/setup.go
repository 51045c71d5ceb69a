// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
)

const retry = time.Second

// SetupWithManager registers one controller for each kind. The indexes of package index must exist.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	for _, k := range kinds() {
		err := ctrl.NewControllerManagedBy(mgr).Named(k.name).
			For(k.empty(), builder.WithPredicates(deletedWhileHeld())).
			Watches(&infrav1.IngotHost{}, objectsOf(k), builder.WithPredicates(needEnded(k))).
			WithOptions(options).
			Complete(reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) { return r.reconcile(ctx, k, req) }))
		if err != nil {
			return err
		}
	}
	return nil
}

func deletedWhileHeld() predicate.Predicate {
	held := func(o client.Object) bool { return controllerutil.ContainsFinalizer(o, infrav1.InUseFinalizer) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return held(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return held(e.ObjectNew) && e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc: kubeutil.Never[event.DeleteEvent],
	}
}

func objectsOf(k kind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		host, ok := o.(*infrav1.IngotHost)
		if !ok {
			return nil
		}
		var out []reconcile.Request
		for _, name := range k.named(host) {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: host.Namespace, Name: name}})
		}
		return out
	})
}

// needEnded passes hosts that no longer need an object of the kind: they are deleted, forgotten, or
// refer to another object.
func needEnded(k kind) predicate.Predicate {
	p := kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool {
		return isForgotten(after) && !isForgotten(before) || !slices.Equal(k.named(before), k.named(after))
	})
	p.CreateFunc = kubeutil.Never
	return p
}
