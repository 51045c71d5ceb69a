// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// This file is for those who look at all hosts of a namespace each time that they are woken
// (decision 0277).

// Facts lets through the IngotHardware of which something else is made than before.
func Facts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotHardware)
		after, isHardware := e.ObjectNew.(*infrav1.IngotHardware)
		return ok && isHardware && !allocation.SameFacts(before, after)
	}}
}

// gathered is how long facts wait for those of other hosts.
const gathered = 2 * time.Second

// Soon maps as handler.EnqueueRequestsFromMapFunc does, and has what is mapped looked at a
// little later, once for all that comes until then. It is for what many hosts say at once
// when they are registered, while none of them is free yet. What a claim or a release
// changes must not wait: a control plane picks its racks by it.
func Soon(of handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request], objects ...client.Object) {
		for _, object := range objects {
			for _, request := range of(ctx, object) {
				queue.AddAfter(request, gathered)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, queue, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, queue, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, queue, e.Object)
		},
	}
}
