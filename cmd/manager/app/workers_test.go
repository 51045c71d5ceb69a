// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// I13: retries of failed reconciles have an exponential backoff with jitter of at most five minutes,
// which a success resets.
func TestWorkersRetry(t *testing.T) {
	options := workers(3)
	if options.MaxConcurrentReconciles != 3 {
		t.Errorf("%d workers", options.MaxConcurrentReconciles)
	}
	limiter := options.RateLimiter
	item := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "h"}}
	base := retryFirst
	for n := range 30 {
		got := limiter.When(item)
		if longest := base + base/2; got < base || got > longest || got > 5*time.Minute {
			t.Errorf("try %d after %s, want %s to %s", n+1, got, base, longest)
		}
		base = min(2*base, 200*time.Second)
	}
	waits := map[time.Duration]bool{}
	for n := range 20 {
		other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: string(rune('a' + n))}}
		for range 20 { // to the limit
			limiter.When(other)
		}
		waits[limiter.When(other)] = true
	}
	if len(waits) < 2 {
		t.Errorf("twenty simultaneous failures are retried simultaneously: %v", waits)
	}
	limiter.Forget(item)
	if got := limiter.When(item); got > 2*retryFirst {
		t.Errorf("after a success %s", got)
	}
	if again := workers(1).RateLimiter.When(item); again > 2*retryFirst {
		t.Errorf("controllers share their backoff: %s", again)
	}
}
