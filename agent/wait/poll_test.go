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
	broken, calledOff := errors.New("broken"), errors.New("called off")
	poll := wait.Poll{Every: 2 * time.Second, Limit: 7 * time.Second}
	for name, tc := range map[string]struct {
		takes  time.Duration // an ask
		yes    int           // the ask that is answered by yes; 0: none
		fails  int           // the ask that fails; 0: none
		off    time.Duration // when it is called off; 0: never
		want   error
		asks   int
		passed time.Duration
	}{
		"there already":                {yes: 1, asks: 1},
		"it comes":                     {yes: 3, asks: 3, passed: 4 * time.Second},
		"it comes with the last":       {yes: 4, asks: 4, passed: 6 * time.Second},
		"it does not come":             {want: wait.ErrLimit, asks: 4, passed: 7 * time.Second},
		"asking fails":                 {fails: 2, want: broken, asks: 2, passed: 2 * time.Second},
		"called off":                   {off: 3 * time.Second, want: calledOff, asks: 2, passed: 3 * time.Second},
		"an ask takes time":            {takes: time.Second, want: wait.ErrLimit, asks: 3, passed: 7 * time.Second},
		"an ask outlasts the limit":    {takes: 9 * time.Second, want: wait.ErrLimit, asks: 1, passed: 9 * time.Second},
		"an ask that did, and has it":  {takes: 9 * time.Second, yes: 1, asks: 1, passed: 9 * time.Second},
		"called off before the answer": {takes: 2 * time.Second, off: time.Second, want: calledOff, asks: 1, passed: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.off > 0 {
					time.AfterFunc(tc.off, func() { cancel(calledOff) })
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
