// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// A process is ready when its cache is synced. A manager with webhooks does not wait forever.
func TestCacheCheck(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		grace, after time.Duration
		synced       bool
		want         error
	}{
		"manager, not filled":          {grace: conversionGrace, want: errCacheNotSynced},
		"manager, just before":         {grace: conversionGrace, after: conversionGrace - 1, want: errCacheNotSynced},
		"manager, filled":              {grace: conversionGrace, synced: true},
		"manager, waiting too long":    {grace: conversionGrace, after: conversionGrace},
		"boot server, not filled":      {after: time.Hour, want: errCacheNotSynced},
		"boot server, filled, at once": {synced: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cacheCheck{clock: testclock.NewFakePassiveClock(start.Add(tc.after)), started: start, grace: tc.grace}
			c.synced.Store(tc.synced)
			if err := c.check(nil); !errors.Is(err, tc.want) {
				t.Errorf("check = %v, want %v", err, tc.want)
			}
		})
	}
}
