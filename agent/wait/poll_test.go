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

func TestPoll(t *testing.T) {
	broken, canceled := errors.New("broken"), errors.New("canceled")
	poll := wait.Poll{Every: 2 * time.Second, Limit: 7 * time.Second}
	for name, tc := range map[string]struct {
		takes  time.Duration // of a check
		yes    int           // the check that is met; 0: none
		fails  int           // the check that fails; 0: none
		off    time.Duration // until the cancellation; 0: never
		want   error
		asks   int
		passed time.Duration
	}{
		"met at once":                   {yes: 1, asks: 1},
		"met":                           {yes: 3, asks: 3, passed: 4 * time.Second},
		"met at the last check":         {yes: 4, asks: 4, passed: 6 * time.Second},
		"not met":                       {want: wait.ErrLimit, asks: 4, passed: 7 * time.Second},
		"a check fails":                 {fails: 2, want: broken, asks: 2, passed: 2 * time.Second},
		"canceled":                      {off: 3 * time.Second, want: canceled, asks: 2, passed: 3 * time.Second},
		"a check takes time":            {takes: time.Second, want: wait.ErrLimit, asks: 3, passed: 7 * time.Second},
		"a check exceeds the limit":     {takes: 9 * time.Second, want: wait.ErrLimit, asks: 1, passed: 9 * time.Second},
		"met after the limit":           {takes: 9 * time.Second, yes: 1, asks: 1, passed: 9 * time.Second},
		"canceled during a first check": {takes: 2 * time.Second, off: time.Second, want: canceled, asks: 1, passed: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.off > 0 {
					time.AfterFunc(tc.off, func() { cancel(canceled) })
				}
				start, asks := time.Now(), 0
				err := poll.Until(ctx, func() (bool, error) {
					asks++
					time.Sleep(tc.takes)
					if asks == tc.fails {
						return false, broken
					}
					return asks == tc.yes, nil
				})
				if passed := time.Since(start); !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) || asks != tc.asks || passed != tc.passed {
					t.Errorf("%v after %d asks and %s, want %v after %d and %s", err, asks, passed, tc.want, tc.asks, tc.passed)
				}
			})
		})
	}
}
