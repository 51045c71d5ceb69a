// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How long a reconcile that failed waits for its next try (I13). controller-runtime's own
// limit is a thousand seconds: after a quarter of an hour without the API server or a
// webhook, a fence would stand still for as long again.
const (
	retryFirst  = 5 * time.Millisecond
	retryMax    = 5 * time.Minute // with jitter
	retryJitter = 0.5
)

// workers are the options of a controller that has so many.
func workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             jittered{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMax*2/3)},
	}
}

// jittered keeps what failed together from being tried again together.
type jittered struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// When implements workqueue.TypedRateLimiter.
func (j jittered) When(item reconcile.Request) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(item), retryJitter)
}
