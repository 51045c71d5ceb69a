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
)

// retry is how soon an object is read again that another client has just written.
const retry = time.Second

// SetupWithManager registers one controller for each kind. The indexes of package index are
// set up already.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	for _, k := range kinds() {
		err := ctrl.NewControllerManagedBy(mgr).Named(k.name).
			For(k.empty(), builder.WithPredicates(deletedWhileHeld())).
			Watches(&infrav1.IngotHost{}, objectsOf(k), builder.WithPredicates(lets(k))).
			WithOptions(options).
			Complete(reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) { return r.reconcile(ctx, k, req) }))
		if err != nil {
			return err
		}
	}
	return nil
}

// deletedWhileHeld lets through objects with the finalizer when the manager starts, and
// when they are deleted.
func deletedWhileHeld() predicate.Predicate {
	held := func(o client.Object) bool { return controllerutil.ContainsFinalizer(o, infrav1.InUseFinalizer) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return held(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return held(e.ObjectNew) && e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// objectsOf maps a host to the objects of the kind that it needs.
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

// lets lets through hosts that no longer need an object of the kind: they are forgotten or
// gone, or name another.
func lets(k kind) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.IngotHost)
			after, both := e.ObjectNew.(*infrav1.IngotHost)
			return ok && both && (isForgotten(after) && !isForgotten(before) || !slices.Equal(k.named(before), k.named(after)))
		},
	}
}
