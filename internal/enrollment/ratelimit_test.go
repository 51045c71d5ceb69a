// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Who may report when: the first key of a token, and not all the time.
func TestEnter(t *testing.T) {
	var p Pace
	now := time.Unix(0, 0)
	for i, step := range []struct {
		after    time.Duration
		mac, key string
		want     string
	}{
		{0, "a", "1", ""},
		{0, "a", "1", "later"},
		{0, "b", "2", ""},
		{between, "a", "1", ""},
		{between, "a", "2", "refused"},
		{between, "a", "", "refused"},
		{between, "a", "1", ""},
		{remembered, "a", "2", ""}, // another boot, another token
		{between, "a", "1", "refused"},
	} {
		now = now.Add(step.after)
		err := p.enter(Report{Network: "n", MAC: step.mac, Key: step.key}, now)
		got := ""
		if wait, ok := Later(err); ok {
			got = "later"
			if wait <= 0 {
				t.Errorf("step %d: after %s", i, wait)
			}
		} else if errors.Is(err, ErrRefused) {
			got = "refused"
		}
		if got != step.want {
			t.Errorf("step %d: %q (%v), want %q", i, got, err, step.want)
		}
	}
}

func TestEnterIsBounded(t *testing.T) {
	var p Pace
	now := time.Unix(0, 0)
	for i := range maxMachines {
		if err := p.enter(Report{MAC: fmt.Sprint(i)}, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := Later(p.enter(Report{MAC: "more"}, now)); !ok || p.machines.Len() != maxMachines {
		t.Errorf("%d machines are remembered", p.machines.Len())
	}
	if err := p.enter(Report{MAC: "more"}, now.Add(remembered)); err != nil || p.machines.Len() != 1 {
		t.Errorf("%d machines are remembered later, %v", p.machines.Len(), err)
	}
}

func TestLook(t *testing.T) {
	var p Pace
	now := time.Unix(0, 0)
	looks := func() (n int) {
		for p.look("n", 10, now) == nil {
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
	if p.look("another", 1, now) != nil {
		t.Error("one network takes another's")
	}
	if !p.tell("n", now) || p.tell("n", now.Add(toldAgain-1)) || !p.tell("another", now) || !p.tell("n", now.Add(toldAgain)) {
		t.Error("people are told too often, or too seldom")
	}
	var none *Pace
	if none.enter(Report{}, now) != nil || none.look("n", 1, now) != nil || !none.tell("n", now) {
		t.Error("without a pace something is refused")
	}
}
