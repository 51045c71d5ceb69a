// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestContact checks after which calls, and for how long, calls to a BMC are paused.
func TestContact(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := PauseOptions{After: 3, Base: time.Second, Max: 6 * time.Second}
	const canceled = "a canceled call does not count"
	down := fmt.Errorf("x: %w", ErrUnreachable)
	for _, tc := range []struct {
		name   string
		o      PauseOptions
		jitter float64
		calls  []error
		// failures and pause after the last call.
		failures int
		rest     time.Duration
	}{
		{"answers", o, 0, []error{nil, nil}, 0, 0},
		{"fails twice", o, 0, []error{down, down}, 2, 0},
		{"fails three times", o, 0, []error{down, down, down}, 3, time.Second},
		{"fails five times", o, 0, []error{down, down, down, down, down}, 5, 4 * time.Second},
		{"bounded", o, 0, []error{down, down, down, down, down, down, down}, 7, 6 * time.Second},
		{"jittered", o, 0.5, []error{down, down, down, down}, 4, 1500 * time.Millisecond},
		{"an answer resets", o, 0, []error{down, down, down, nil}, 0, 0},
		{"not supported is an answer", o, 0, []error{down, down, down, ErrNotSupported}, 0, 0},
		{"an error without a sentinel is an answer", o, 0, []error{down, down, down, &SettingError{}}, 0, 0},
		{canceled, o, 0, []error{down, down, down, fmt.Errorf("x: %w", context.Canceled)}, 3, time.Second},
		{"all classes count", o, 0, []error{ErrTimeout, ErrUnknownOutcome, ErrUnauthorized, ErrCertificate}, 4, 2 * time.Second},
		{"Retry-After prolongs", o, 0, []error{ErrTimeout, ErrTimeout, &BusyError{RetryAfter: time.Minute}}, 3, time.Minute},
		{"Retry-After is bounded", o, 0, []error{ErrTimeout, ErrTimeout, &BusyError{RetryAfter: time.Hour}}, 3, maxRetryAfter},
		{"Retry-After at the first failure", o, 0, []error{&BusyError{RetryAfter: time.Minute}}, 1, 0},
		{"disabled", PauseOptions{After: -1}, 0, []error{down, down, down, down}, 4, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c CallStatus
			now := start
			for _, err := range tc.calls {
				now = now.Add(time.Minute)
				c = c.after(err, now, tc.jitter, tc.o.filled())
			}
			if c.Failures != tc.failures {
				t.Errorf("%d failures, want %d", c.Failures, tc.failures)
			}
			if c.Failures > 0 && (c.Since != start.Add(time.Minute) || c.Err == nil || c.Last == OutcomeOK) {
				t.Errorf("contact %+v", c)
			}
			var rest time.Duration
			if !c.PausedUntil.IsZero() {
				rest = c.PausedUntil.Sub(start.Add(time.Duration(len(tc.calls)) * time.Minute))
				if tc.name == canceled {
					rest += time.Minute // the pause began with the call before
				}
			}
			if rest != tc.rest {
				t.Errorf("paused for %s, want %s", rest, tc.rest)
			}
		})
	}
}

func TestRetryAfterOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"none", nil, 0},
		{"unspecified", ErrTimeout, 0},
		{"busy", fmt.Errorf("x: %w", &BusyError{RetryAfter: time.Second}), time.Second},
		{"paused", fmt.Errorf("x: %w", &PausedError{RetryAfter: time.Minute, Err: &BusyError{RetryAfter: time.Second}}), time.Minute},
	} {
		if got := RetryAfter(tc.err); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if err := error(&PausedError{Err: ErrCertificate}); !errors.Is(err, ErrCertificate) || OutcomeOf(err) != OutcomeCertificate {
		t.Error("the cause is lost")
	}
}
