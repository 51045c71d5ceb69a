// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package eventually

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// DefaultLimit is far above what a loaded machine needs.
	DefaultLimit = 4 * time.Minute
	// DefaultInterval is short to people, and long to a machine that is asked.
	DefaultInterval = 50 * time.Millisecond
)

// A Missing says what is still missing, or nothing. An error is no end: the next
// look may have none.
type Missing func(ctx context.Context) (lack string, err error)

// All is missing until nothing is missing of any.
func All(all ...Missing) Missing {
	return func(ctx context.Context) (string, error) {
		for _, missing := range all {
			if lack, err := missing(ctx); lack != "" || err != nil {
				return lack, err
			}
		}
		return "", nil
	}
}

// Holds is missing for as long as something does not hold.
func Holds(holds func() bool) Missing {
	return func(context.Context) (string, error) {
		if holds() {
			return "", nil
		}
		return "not yet", nil
	}
}

// Works is missing for as long as something fails.
func Works(try func(ctx context.Context) error) Missing {
	return func(ctx context.Context) (string, error) { return "", try(ctx) }
}

// A Wait is how to wait; its zero value is sensible.
type Wait struct {
	// Limit bounds the wait; 0 is DefaultLimit.
	Limit time.Duration
	// Interval is the pause between two looks; 0 is DefaultInterval.
	Interval time.Duration
	// Report is how often a long wait says what it waits for; one that reports
	// also says how long it took. 0 is never.
	Report time.Duration
	// Broken says why it is no use to go on, after each look; nil: it always is.
	Broken func() error
	// Explain is asked where the wait fails, for what people want to know then;
	// nil: nothing.
	Explain func() string
}

// Until waits until nothing is missing. It may be used while a test is cleaned up.
func (w Wait) Until(t testing.TB, what string, missing Missing) {
	t.Helper()
	ctx := t.Context()
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx) // it ends before the cleanup begins
	}
	began := time.Now()
	lack, err := w.poll(ctx, missing, func(lack string) {
		t.Helper()
		t.Logf("waiting for %s since %s; missing: %s", what, time.Since(began).Round(time.Second), lack)
	})
	if err != nil {
		t.Fatalf("waited %s for %s: %v; missing: %s%s", time.Since(began).Round(time.Millisecond), what, err, lack, w.explained())
		return
	}
	if w.Report > 0 {
		t.Logf("%s: after %s", what, time.Since(began).Round(100*time.Millisecond))
	}
}

// poll looks until nothing is missing, or returns what is and why it does not go on.
func (w Wait) poll(ctx context.Context, missing Missing, report func(lack string)) (last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(w.Limit, DefaultLimit))
	defer cancel()
	pause := wait.DelayFunc(func() time.Duration { return cmp.Or(w.Interval, DefaultInterval) })
	said := time.Now()
	// The pause begins when a look has ended: looks may be long.
	err = pause.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		lack, err := missing(ctx)
		if lack == "" && err == nil {
			return true, nil
		}
		if ctx.Err() == nil || last == "" { // a look that was cut off knows less than the one before
			last = text(lack, err)
		}
		if w.Broken != nil {
			if err := w.Broken(); err != nil {
				return false, err
			}
		}
		if w.Report > 0 && time.Since(said) > w.Report {
			said = time.Now()
			report(last)
		}
		return false, nil
	})
	return last, err
}

func text(lack string, err error) string {
	switch {
	case err == nil:
		return lack
	case lack == "":
		return err.Error()
	}
	return fmt.Sprintf("%s (%v)", lack, err)
}

func (w Wait) explained() string {
	if w.Explain == nil {
		return ""
	}
	return "\n" + w.Explain()
}
