// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
)

// I7: a BMC that reports Off fences a host only after it accepted a forced power-off. No
// unnecessary power action is sent.
func testOffNeedsAcceptedPowerOff(t *testing.T, on *testEnv) {
	const asks, cuts = string(bmc.ActionGracefulOff), string(bmc.ActionForceOff)
	refuses := func(err error) func(*fixture) {
		return func(y *fixture) { y.bmc.set(func(f *fakeBMC) { f.power, f.writeErr = bmc.PowerOff, err }) }
	}
	for name, tc := range map[string]struct {
		release func(*fixture)
		told    []string
		within  time.Duration // 0: never
	}{
		"says off": {func(y *fixture) { y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff }) }, []string{cuts}, time.Minute},
		"shuts down": {func(y *fixture) {
			y.step("h")
			y.bmc.mu.Lock()
			y.bmc.power = bmc.PowerOff
			y.bmc.mu.Unlock()
		}, []string{asks}, 5 * time.Second},
		"shuts down, and another manager looks": {func(y *fixture) {
			y.step("h")
			y.bmc.mu.Lock()
			y.bmc.power = bmc.PowerOff
			y.bmc.mu.Unlock()
			y.Reconciler.memory = hostMemory{}
		}, []string{asks}, 5 * time.Second},
		"refuses to cut, since it is off": {refuses(fmt.Errorf("412: %w", bmc.ErrProtocol)), []string{cuts, cuts, cuts}, 4 * time.Minute},
		"gives no answer":                 {refuses(fmt.Errorf("reset: %w", bmc.ErrUnknownOutcome)), nil, 0},
		"is busy":                         {refuses(fmt.Errorf("503: %w", bmc.ErrBusy)), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.longInUse()
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
			from := y.clock.Now()
			tc.release(y)
			var told []string
			fenced := func() bool { return !y.get("h").Spec.Claim.FencedTime.IsZero() }
			for !fenced() && y.clock.Since(from) < 5*time.Minute {
				if writes := y.bmc.took(); writes != "" {
					told = append(told, writes)
				}
				y.step("h")
				y.clock.Step(5 * time.Second)
			}
			if tc.within == 0 && fenced() || tc.within > 0 && (!fenced() || y.clock.Since(from) > tc.within) {
				t.Errorf("fenced: %t, after %s", fenced(), y.clock.Since(from))
			}
			if tc.told != nil && fmt.Sprint(told) != fmt.Sprint(tc.told) {
				t.Errorf("the BMC gets %q, want %q", told, tc.told)
			}
		})
	}
}

// testUnansweredPowerOffs: a BMC that reports Off but never answers the confirming power-off is
// shown as failing and retried with backoff. The host is fenced only after an answer.
func testUnansweredPowerOffs(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.longInUse()
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
	y.bmc.set(func(f *fakeBMC) { f.power, f.writeErr = bmc.PowerOff, fmt.Errorf("reset: %w", bmc.ErrUnknownOutcome) })
	took := y.ignoredFor(240, infrav1.ReasonBMCTimeout) // two hours
	if took < 15 || took > 45 {
		t.Errorf("%d orders in two hours, want one in 3 to 6 minutes", took)
	}
	message := y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCTimeout).Message
	if !strings.Contains(message, "did not answer 3 power-off requests in a row") {
		t.Errorf("message %q", message)
	}
	if claim := y.get("h").Spec.Claim; claim == nil || !claim.FencedTime.IsZero() {
		t.Errorf("fenced by no more than the BMC's word: %+v", claim)
	}
	y.bmc.set(func(f *fakeBMC) { f.writeErr = nil })
	y.clock.Step(2 * timing.Default().BMCBackoffMax)
	y.until("h", "fenced", func(h *infrav1.IngotHost) bool { return h.Spec.Claim == nil || !h.Spec.Claim.FencedTime.IsZero() })
	y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
}
