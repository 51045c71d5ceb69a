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

// TestContact pins when a BMC rests and for how long, call by call.
func TestContact(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := RestOptions{After: 3, Base: time.Second, Max: 6 * time.Second}
	down := fmt.Errorf("x: %w", ErrUnreachable)
	for _, tc := range []struct {
		name   string
		o      RestOptions
		jitter float64
		calls  []error
		// failures and rest after the last call.
		failures int
		rest     time.Duration
	}{
		{"answers", o, 0, []error{nil, nil}, 0, 0},
		{"fails twice", o, 0, []error{down, down}, 2, 0},
		{"fails three times", o, 0, []error{down, down, down}, 3, time.Second},
		{"fails on", o, 0, []error{down, down, down, down, down}, 5, 4 * time.Second},
		{"bounded", o, 0, []error{down, down, down, down, down, down, down}, 7, 6 * time.Second},
		{"jittered", o, 0.5, []error{down, down, down, down}, 4, 1500 * time.Millisecond},
		{"an answer ends it", o, 0, []error{down, down, down, nil}, 0, 0},
		{"a refusal is an answer", o, 0, []error{down, down, down, ErrNotSupported}, 0, 0},
		{"so is an error of its own", o, 0, []error{down, down, down, &SettingError{}}, 0, 0},
		{"a caller who gives up says nothing", o, 0, []error{down, down, down, fmt.Errorf("x: %w", errCanceled)}, 3, time.Second},
		{"all kinds count", o, 0, []error{ErrTimeout, ErrUnknownOutcome, ErrUnauthorized, ErrCertificate}, 4, 2 * time.Second},
		{"it asks for more", o, 0, []error{ErrTimeout, ErrTimeout, &BusyError{RetryAfter: time.Minute}}, 3, time.Minute},
		{"it asks for too much", o, 0, []error{ErrTimeout, ErrTimeout, &BusyError{RetryAfter: time.Hour}}, 3, maxAsked},
		{"it asks, and has failed once", o, 0, []error{&BusyError{RetryAfter: time.Minute}}, 1, 0},
		{"never", RestOptions{After: -1}, 0, []error{down, down, down, down}, 4, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Contact
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
			if !c.RestsUntil.IsZero() {
				rest = c.RestsUntil.Sub(start.Add(time.Duration(len(tc.calls)) * time.Minute))
				if tc.name == "a caller who gives up says nothing" {
					rest += time.Minute // since the call before
				}
			}
			if rest != tc.rest {
				t.Errorf("rests %s, want %s", rest, tc.rest)
			}
		})
	}
}

var errCanceled = fmt.Errorf("given up: %w", context.Canceled)

func TestRetryAfterOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"none", nil, 0},
		{"does not say", ErrTimeout, 0},
		{"busy", fmt.Errorf("x: %w", &BusyError{RetryAfter: time.Second}), time.Second},
		{"rests", fmt.Errorf("x: %w", &RestError{RetryAfter: time.Minute, Err: &BusyError{RetryAfter: time.Second}}), time.Minute},
	} {
		if got := RetryAfter(tc.err); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if err := error(&RestError{Err: ErrCertificate}); !errors.Is(err, ErrCertificate) || OutcomeOf(err) != OutcomeCertificate {
		t.Error("the cause is lost")
	}
}
