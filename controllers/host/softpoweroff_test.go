// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// Rejections count by the time between tries.
func TestSoftPowerOff(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	for name, tc := range map[string]struct {
		refused []int // seconds
		want    bool
	}{
		"never":            {nil, false},
		"once":             {[]int{0}, false},
		"for a while":      {[]int{0, 30, 60, 90, 119}, false},
		"for long":         {[]int{0, 30, 60, 90, 120}, true},
		"before and after": {[]int{0, 3600}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var a softPowerOff
			for _, s := range tc.refused {
				a = a.refused(at(s))
			}
			if got := a.lasted(2 * time.Minute); got != tc.want {
				t.Errorf("lasted: %t, want %t", got, tc.want)
			}
		})
	}
}

// longInUse creates a host whose system has run for an hour.
func (y *fixture) longInUse() {
	y.t.Helper()
	y.inUse("h")
	y.clock.Step(time.Hour)
	y.step("h")
	y.bmc.took()
}

// orders steps the clock and returns the BMC's power actions with their times in seconds.
func (y *fixture) orders(while time.Duration) (told []string) {
	y.t.Helper()
	for passed := time.Duration(0); passed <= while; passed += 5 * time.Second {
		y.step("h")
		if writes := y.bmc.took(); writes != "" {
			told = append(told, fmt.Sprintf("%s@%d", writes, int(passed.Seconds())))
		}
		y.clock.Step(5 * time.Second)
	}
	return told
}

// I7: a rejected graceful shutdown is repeated, and the system loses power only after its full
// time.
func testRejectedShutdownIsRepeated(t *testing.T, on *testEnv) {
	off := func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff }
	release := func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing }
	busy := func(f *fakeBMC) { f.writeErr = fmt.Errorf("503: %w", bmc.ErrBusy) }
	answers := func(f *fakeBMC) { f.writeErr = nil }
	const asks, cuts = string(bmc.ActionGracefulOff), string(bmc.ActionForceOff)
	for name, wish := range map[string]func(*infrav1.IngotHost){"wanted off": off, "released": release} {
		t.Run(name+", refused once", func(t *testing.T) {
			y := newFixture(t, on)
			y.longInUse()
			y.bmc.set(busy)
			y.edit("h", wish)
			y.step("h")
			if told, asked := y.bmc.took(), y.get("h").Status.SoftPowerOffTime; told != asks || !asked.IsZero() {
				t.Fatalf("told %q, asked at %v", told, asked)
			}
			y.bmc.set(answers)
			told := y.orders(4 * time.Minute)
			if len(told) < 2 || !strings.HasPrefix(told[0], asks) || !strings.HasPrefix(told[1], cuts) {
				t.Fatalf("told %q", told)
			}
			var asked, cut int
			_, _ = fmt.Sscanf(told[0], asks+"@%d", &asked)
			_, _ = fmt.Sscanf(told[1], cuts+"@%d", &cut)
			if asked > 60 || cut-asked < 120 || cut-asked > 130 {
				t.Errorf("told %q", told)
			}
		})
		t.Run(name+", always refused", func(t *testing.T) {
			y := newFixture(t, on)
			y.longInUse()
			y.bmc.set(busy)
			y.edit("h", wish)
			told := y.orders(5 * time.Minute)
			at := 0
			for _, order := range told {
				if n, _ := fmt.Sscanf(order, cuts+"@%d", &at); n == 1 {
					break
				}
			}
			if at < 120 || at > 240 {
				t.Errorf("the power is cut after %d s: %q", at, told)
			}
		})
	}
	t.Run("refused and withdrawn", func(t *testing.T) {
		y := newFixture(t, on)
		y.longInUse()
		y.bmc.set(busy)
		y.edit("h", off)
		y.orders(time.Minute)
		y.bmc.set(answers)
		y.lastWeeksWish(asks)
	})
	t.Run("asked and withdrawn", func(t *testing.T) {
		y := newFixture(t, on)
		y.longInUse()
		y.edit("h", off)
		y.step("h")
		y.lastWeeksWish(asks)
	})
}

// lastWeeksWish withdraws a desired power state and releases the machine a week later.
func (y *fixture) lastWeeksWish(asks string) {
	y.t.Helper()
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Power = "" })
	y.orders(10 * time.Minute)
	y.clock.Step(7 * 24 * time.Hour)
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
	y.step("h")
	if told := y.bmc.took(); told != asks {
		y.t.Errorf("the BMC gets %q at the release", told)
	}
}
