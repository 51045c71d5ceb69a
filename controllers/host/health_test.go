// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// A worse health is shown at once, a better one after it has lasted.
func TestHealthImprovesLate(t *testing.T) {
	const ok, warning, critical, unknown = lifecycle.HealthOK, lifecycle.HealthWarning, lifecycle.HealthCritical, lifecycle.HealthUnknown
	delays := timing.Default()
	for name, tc := range map[string]struct {
		felt []lifecycle.Health // one a minute
		want []lifecycle.Health
	}{
		"first":              {[]lifecycle.Health{critical}, []lifecycle.Health{critical}},
		"worse at once":      {[]lifecycle.Health{ok, warning, critical}, []lifecycle.Health{ok, warning, critical}},
		"better later":       {[]lifecycle.Health{critical, ok, ok, ok, ok, ok, ok, ok}, []lifecycle.Health{critical, critical, critical, critical, critical, critical, ok, ok}},
		"wobbles":            {[]lifecycle.Health{warning, ok, warning, ok, warning, ok}, []lifecycle.Health{warning, warning, warning, warning, warning, warning}},
		"silent for a while": {[]lifecycle.Health{warning, unknown, unknown, warning}, []lifecycle.Health{warning, warning, warning, warning}},
		"silent and well":    {[]lifecycle.Health{ok, unknown, ok}, []lifecycle.Health{ok, unknown, ok}},
	} {
		t.Run(name, func(t *testing.T) {
			var h healthState
			var got []lifecycle.Health
			at := time.Unix(1000, 0)
			for _, felt := range tc.felt {
				h = h.reported(felt, at, delays)
				got = append(got, h.state)
				at = at.Add(time.Minute)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnhealthy(t *testing.T) {
	var parts []bmc.ComponentHealth
	for i := range 9 {
		parts = append(parts, bmc.ComponentHealth{Kind: "Drive", Name: fmt.Sprint(i), State: bmc.HealthWarning})
	}
	parts = append(parts,
		bmc.ComponentHealth{Kind: "Fan", Name: "2", State: bmc.HealthCritical, Reading: "0 RPM"},
		bmc.ComponentHealth{Kind: "Fan", Name: "1", State: bmc.HealthOK, Reading: "4200 RPM"})
	names, readings := unhealthy(parts)
	if !strings.HasPrefix(names, `Fan "2" is Critical, Drive "0" is Warning`) || !strings.HasSuffix(names, "and 2 more") || strings.Contains(names, "RPM") {
		t.Errorf("names: %s", names)
	}
	if !strings.HasPrefix(readings, `Fan "2" is Critical (0 RPM), `) {
		t.Errorf("readings: %s", readings)
	}
}

// unhealthyServer is a BMC whose parts are read, or not.
type unhealthyServer struct {
	bmc.Conn
	asked int
	err   error
}

func (a *unhealthyServer) Health(context.Context) (bmc.HealthReport, error) {
	a.asked++
	return bmc.HealthReport{Components: []bmc.ComponentHealth{{Kind: "Fan", Name: "2", State: bmc.HealthWarning}}}, a.err
}

// An unfinished read of the components continues at the next poll, a failed one after a while.
func TestHealthWithoutComponents(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		asked int
	}{
		"read":        {nil, 1},
		"failed":      {bmc.ErrTimeout, 1},
		"not all yet": {fmt.Errorf("parts: %w", bmc.ErrUnfinished), 2},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.NewFakeClock(time.Unix(10_000, 0))
			r, conn := &Reconciler{Clock: clock}, &unhealthyServer{err: tc.err}
			h := r.readHealth(t.Context(), conn, healthState{}, lifecycle.HealthWarning)
			clock.SetTime(clock.Now().Add(time.Minute))
			if h = r.readHealth(t.Context(), conn, h, lifecycle.HealthWarning); conn.asked != tc.asked {
				t.Errorf("asked %d times in two polls, want %d", conn.asked, tc.asked)
			}
			if want := map[bool]string{true: `Fan "2" is Warning`}[tc.err == nil]; h.detail != want {
				t.Errorf("detail %q, want %q", h.detail, want)
			}
		})
	}
}

// An unhealthy server shows its components, gets one event, stays claimable, and costs no writes
// and no detailed reads while nothing changes.
func testHealth(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.inspect("h")
	y.want("h", infrav1.HostHealthyCondition, metav1.ConditionTrue, infrav1.ReasonHealthOK)
	fan := func(reading string) []bmc.ComponentHealth {
		return []bmc.ComponentHealth{{Kind: "Fan", Name: "Fan 2", State: bmc.HealthCritical, Reading: reading}}
	}
	y.bmc.set(func(f *fakeBMC) { f.health, f.parts = bmc.HealthCritical, fan("0 RPM") })
	y.step("h")
	message := y.want("h", infrav1.HostHealthyCondition, metav1.ConditionFalse, infrav1.ReasonHealthCritical).Message
	if !strings.Contains(message, `Fan "Fan 2" is Critical`) || strings.Contains(message, "RPM") {
		t.Errorf("message %q: want the fan, and no reading", message)
	}
	y.want("h", infrav1.HostAvailableCondition, metav1.ConditionTrue, infrav1.ReasonAvailable)
	y.recordedOnce(infrav1.ReasonHealthCritical)
	if told := strings.Join(y.all(), "\n"); !strings.Contains(told, "0 RPM") {
		t.Errorf("no reading in the events: %s", told)
	}
	y.bmc.set(func(f *fakeBMC) { f.parts = fan("13 RPM") })
	y.atRest("h")
	if y.bmc.details != 1 {
		t.Errorf("%d detailed readings, want 1", y.bmc.details)
	}

	// A restarted manager records no event again and reads the components once.
	y.Reconciler.memory = hostMemory{}
	y.atRest("h")
	y.recordedOnce(infrav1.ReasonHealthCritical)
	if y.bmc.details != 2 {
		t.Errorf("%d detailed readings, want 2", y.bmc.details)
	}
	// Nor does a BMC that was unreachable for a while.
	y.bmc.set(func(f *fakeBMC) { f.readErr = bmc.ErrTimeout })
	y.step("h")
	y.want("h", infrav1.HostHealthyCondition, metav1.ConditionUnknown, infrav1.ReasonHealthUnknown)
	y.bmc.set(func(f *fakeBMC) { f.readErr = nil })
	y.clock.Step(time.Minute)
	y.step("h")
	y.want("h", infrav1.HostHealthyCondition, metav1.ConditionFalse, infrav1.ReasonHealthCritical)
	y.recordedOnce(infrav1.ReasonHealthCritical)

	y.clock.Step(timing.Default().HealthDetail)
	y.step("h")
	if y.bmc.details != 3 {
		t.Errorf("%d detailed readings, want one more after %s", y.bmc.details, timing.Default().HealthDetail)
	}
	y.bmc.set(func(f *fakeBMC) { f.health, f.parts = bmc.HealthOK, nil })
	for range 7 {
		y.step("h")
		y.clock.Step(time.Minute)
	}
	y.want("h", infrav1.HostHealthyCondition, metav1.ConditionTrue, infrav1.ReasonHealthOK)
	y.recordedOnce(infrav1.ReasonHealthOK)
	y.atRest("h")
}
