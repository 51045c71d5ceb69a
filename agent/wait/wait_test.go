// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/agent/wait"
)

func TestForEndsByTimeOrContext(t *testing.T) {
	canceled := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := wait.For(ctx, time.Millisecond); err != nil {
		t.Errorf("time that passed: %v", err)
	}
	cancel(canceled)
	if err := wait.For(ctx, 24*time.Hour); !errors.Is(err, canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestUntilEndsByConditionLimitOrContext(t *testing.T) {
	broken, canceled := errors.New("broken"), errors.New("canceled")
	poll := wait.Poll{Every: 2 * time.Second, Limit: 7 * time.Second}
	for name, tc := range map[string]struct {
		takes  time.Duration // of a check
		yes    int           // the check that is met; 0: none
		fails  int           // the check that fails; 0: none
		off    time.Duration // until the cancellation; 0: never
		want   error
		checks int
		passed time.Duration
	}{
		"met at once":                   {yes: 1, checks: 1},
		"met":                           {yes: 3, checks: 3, passed: 4 * time.Second},
		"met at the last check":         {yes: 4, checks: 4, passed: 6 * time.Second},
		"not met":                       {want: wait.ErrLimit, checks: 4, passed: 7 * time.Second},
		"a check fails":                 {fails: 2, want: broken, checks: 2, passed: 2 * time.Second},
		"canceled":                      {off: 3 * time.Second, want: canceled, checks: 2, passed: 3 * time.Second},
		"a check takes time":            {takes: time.Second, want: wait.ErrLimit, checks: 3, passed: 7 * time.Second},
		"a check exceeds the limit":     {takes: 9 * time.Second, want: wait.ErrLimit, checks: 1, passed: 9 * time.Second},
		"met after the limit":           {takes: 9 * time.Second, yes: 1, checks: 1, passed: 9 * time.Second},
		"canceled during a first check": {takes: 2 * time.Second, off: time.Second, want: canceled, checks: 1, passed: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.off > 0 {
					time.AfterFunc(tc.off, func() { cancel(canceled) })
				}
				start, checks := time.Now(), 0
				err := poll.Until(ctx, func() (bool, error) {
					checks++
					time.Sleep(tc.takes)
					if checks == tc.fails {
						return false, broken
					}
					return checks == tc.yes, nil
				})
				if passed := time.Since(start); !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) || checks != tc.checks || passed != tc.passed {
					t.Errorf("%v after %d checks and %s, want %v after %d and %s", err, checks, passed, tc.want, tc.checks, tc.passed)
				}
			})
		})
	}
}
