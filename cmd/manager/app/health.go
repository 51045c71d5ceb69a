// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// conversionGrace is how long a manager that serves webhooks may wait for its cache
// before it calls itself ready all the same. To fill the cache, the API server may
// have to convert what is stored, by this very webhook, which its Service offers only
// when a Pod is ready: without an end to the wait, each would wait for the other.
const conversionGrace = 30 * time.Second

// errCacheNotSynced: what the API server has is not known yet.
var errCacheNotSynced = errors.New("the cache is not filled yet")

// addChecks adds what /healthz and /readyz ask.
func addChecks(mgr manager.Manager, o *Options) error {
	// Without any check the probes would be answered with 404, which is "not ready".
	errs := []error{mgr.AddHealthzCheck("ping", healthz.Ping)}
	cached := &cacheCheck{clock: clock.RealClock{}, started: time.Now()}
	if o.servesWebhooks() {
		cached.grace = conversionGrace
		webhooks := mgr.GetWebhookServer().StartedChecker()
		errs = append(errs, mgr.AddReadyzCheck("webhook", webhooks), mgr.AddHealthzCheck("webhook", webhooks))
	}
	return errors.Join(append(errs,
		mgr.AddReadyzCheck("cache", cached.check),
		mgr.Add(everywhere(func(ctx context.Context) error {
			if mgr.GetCache().WaitForCacheSync(ctx) {
				cached.synced.Store(true)
			}
			return nil
		})))...)
}

// cacheCheck says whether the cache is filled.
type cacheCheck struct {
	clock   clock.PassiveClock
	started time.Time
	// grace ends the wait for the cache; 0 means never.
	grace  time.Duration
	synced atomic.Bool
}

func (c *cacheCheck) check(*http.Request) error {
	if c.synced.Load() || c.grace > 0 && c.clock.Since(c.started) >= c.grace {
		return nil
	}
	return errCacheNotSynced
}
