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

// conversionGrace limits how long a manager with webhooks waits for its cache before it is ready. To
// fill the cache, the API server may need this manager's conversion webhook, whose Service includes
// only ready Pods: without a limit both would wait forever.
const conversionGrace = 30 * time.Second

var errCacheNotSynced = errors.New("the cache is not synced yet")

// addChecks adds the checks of /healthz and /readyz.
func addChecks(mgr manager.Manager, o *Options) error {
	// Without a check the probe would get 404.
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

// cacheCheck reports whether the cache is synced.
type cacheCheck struct {
	clock   clock.PassiveClock
	started time.Time
	// grace is the time after which the check passes anyway; 0 means never.
	grace  time.Duration
	synced atomic.Bool
}

func (c *cacheCheck) check(*http.Request) error {
	if c.synced.Load() || c.grace > 0 && c.clock.Since(c.started) >= c.grace {
		return nil
	}
	return errCacheNotSynced
}
