// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The start of the observation is reset when the clock is set.
func TestClockStart(t *testing.T) {
	day := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, tc := range map[string]struct {
		gone, drift time.Duration
		again       bool
	}{
		"time passes":            {gone: time.Hour},
		"slewed":                 {gone: time.Minute, drift: 5 * time.Millisecond},
		"set forward":            {gone: time.Hour, drift: time.Hour, again: true},
		"set back":               {gone: -time.Hour, drift: -time.Hour, again: true},
		"asleep for ten minutes": {gone: 10*time.Minute + time.Second, drift: 10 * time.Minute, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b clockStart
			if at := b.since(day); !at.Equal(day) {
				t.Fatalf("began at %s", at)
			}
			want := day
			if tc.again {
				want = day.Add(tc.gone)
			}
			if at := b.withDrift(day.Add(tc.gone), tc.drift); !at.Equal(want) {
				t.Errorf("began at %s, want %s", at, want)
			}
			if at := b.since(day.Add(tc.gone + time.Second)); !at.Equal(want) {
				t.Errorf("a second later: began at %s, want %s", at, want)
			}
		})
	}
	var running clockStart
	if first := running.since(time.Now()); !running.since(time.Now()).Equal(first) {
		t.Error("a regular clock restarts the observation")
	}
}

// Times in the future, after the clock was set back, do not delay a host.
func testClockSetBack(t *testing.T, on *testEnv) {
	m := prepared(t, on, "standard")
	now := metav1.NewTime(m.clock.Now().Truncate(time.Second))
	ahead := metav1.NewTime(now.Add(time.Hour))
	host := m.get("h")
	host.Status.LastResetTime, host.Status.SoftPowerOffTime = ahead, ahead
	host.Status.Operation = &infrav1.HostOperation{Kind: infrav1.OrderInspect, StartTime: now, LastContactTime: ahead}
	must(m.fixture, m.api.Status().Update(m.ctx, host))

	if wrote, err := m.Reconciler.correctFutureTimes(m.ctx, host); err != nil || !wrote {
		t.Fatalf("wrote %t: %v", wrote, err)
	}
	status := m.get("h").Status
	if diff := cmp.Diff([]metav1.Time{now, now, now}, []metav1.Time{status.LastResetTime, status.SoftPowerOffTime, status.Operation.LastContactTime}); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	version := m.get("h").ResourceVersion
	if wrote, err := m.Reconciler.correctFutureTimes(m.ctx, m.get("h")); err != nil || wrote || m.get("h").ResourceVersion != version {
		t.Error("times that are past are written again")
	}

	ahead = metav1.NewTime(m.clock.Now().Add(time.Hour))
	host = m.get("h")
	host.Status.LastResetTime = ahead
	must(m.fixture, m.api.Status().Update(m.ctx, host))
	begun := m.clock.Now()
	m.lives("available", isAvailable)
	if took := m.clock.Now().Sub(begun); took > 30*time.Minute {
		t.Errorf("held up for %s", took)
	}
}
