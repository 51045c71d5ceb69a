// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// The first key of a token may report, and not too often.
func TestEnter(t *testing.T) {
	var p RateLimiter
	now := time.Unix(0, 0)
	for i, step := range []struct {
		after    time.Duration
		mac, key string
		want     string
	}{
		{0, "a", "1", ""},
		{0, "a", "1", "later"},
		{0, "b", "2", ""},
		{reportInterval, "a", "1", ""},
		{reportInterval, "a", "2", "refused"},
		{reportInterval, "a", "", "refused"},
		{reportInterval, "a", "1", ""},
		{rememberFor, "a", "2", ""}, // another boot, another token
		{reportInterval, "a", "1", "refused"},
	} {
		now = now.Add(step.after)
		err := p.checkReport(Report{Network: "n", MAC: step.mac, Key: step.key}, now)
		got := ""
		if wait, ok := RetryAfter(err); ok {
			got = "later"
			if wait <= 0 {
				t.Errorf("step %d: after %s", i, wait)
			}
		} else if errors.Is(err, ErrRejected) {
			got = "refused"
		}
		if got != step.want {
			t.Errorf("step %d: %q (%v), want %q", i, got, err, step.want)
		}
	}
}

func TestEnterIsBounded(t *testing.T) {
	var p RateLimiter
	now := time.Unix(0, 0)
	for i := range maxMachines {
		if err := p.checkReport(Report{MAC: fmt.Sprint(i)}, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := RetryAfter(p.checkReport(Report{MAC: "more"}, now)); !ok || p.machines.Len() != maxMachines {
		t.Errorf("%d machines are rememberFor", p.machines.Len())
	}
	if err := p.checkReport(Report{MAC: "more"}, now.Add(rememberFor)); err != nil || p.machines.Len() != 1 {
		t.Errorf("%d machines are rememberFor later, %v", p.machines.Len(), err)
	}
}

func TestLook(t *testing.T) {
	var p RateLimiter
	now := time.Unix(0, 0)
	looks := func() (n int) {
		for p.checkRead("n", 10, now) == nil {
			n++
		}
		return n
	}
	for i, step := range []struct {
		after time.Duration
		want  int
	}{{0, 40}, {0, 0}, {15 * time.Second, 10}, {time.Hour, 40}} {
		now = now.Add(step.after)
		if got := looks(); got != step.want {
			t.Errorf("step %d: %d looks, want %d", i, got, step.want)
		}
	}
	if p.checkRead("another", 1, now) != nil {
		t.Error("one network takes another's")
	}
	if !p.shouldReportFull("n", now) || p.shouldReportFull("n", now.Add(reportFullAgain-1)) || !p.shouldReportFull("another", now) || !p.shouldReportFull("n", now.Add(reportFullAgain)) {
		t.Error("people are told too often, or too seldom")
	}
	var none *RateLimiter
	if none.checkReport(Report{}, now) != nil || none.checkRead("n", 1, now) != nil || !none.shouldReportFull("n", now) {
		t.Error("without a pace something is refused")
	}
}
