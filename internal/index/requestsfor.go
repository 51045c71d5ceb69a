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

// This file is for controllers that read all hosts of a namespace in each reconcile.

// FactsChanged returns a predicate for IngotHardware objects whose relevant facts have changed.
func FactsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.IngotHardware)
		after, isHardware := e.ObjectNew.(*infrav1.IngotHardware)
		return ok && isHardware && !allocation.SameFacts(before, after)
	}}
}

// gatherTime is how long requests wait for those of other hosts.
const gatherTime = 2 * time.Second

// EnqueueDelayed maps like handler.EnqueueRequestsFromMapFunc, but delays the requests by gatherTime, so that
// many events cause one reconcile. Use it for the facts of hosts that are registered in bulk. Claims
// and releases must not be delayed: control planes choose their racks by them.
func EnqueueDelayed(mapper handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request], objects ...client.Object) {
		for _, object := range objects {
			for _, request := range mapper(ctx, object) {
				queue.AddAfter(request, gatherTime)
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
