// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A power cycle that was requested before a pause is skipped after it, and does not count.
func TestInterruptedCycleIsSkipped(t *testing.T) {
	asked := metav1.Time{Time: day().Add(-3 * time.Hour)}
	cycle := func(count int32, state infrav1.PowerCycleState, done metav1.Time) *infrav1.ClaimPowerCycle {
		return &infrav1.ClaimPowerCycle{Count: count, State: state, RequestTime: asked, CompletionTime: done, BootID: "b"}
	}
	for name, tc := range map[string]struct {
		count            int32
		paused, switched time.Time
		power            infrav1.PowerState
		rule             string
		want             *infrav1.ClaimPowerCycle // where the ledger is written
	}{
		"acted on all the time":          {1, asked.Add(-time.Hour), time.Time{}, infrav1.PowerStateOn, "cycle/off", nil},
		"since the same second":          {1, asked.Add(time.Second - 1), time.Time{}, infrav1.PowerStateOn, "cycle/off", nil},
		"it is not known":                {1, time.Time{}, time.Time{}, infrav1.PowerStateOn, "cycle/off", nil},
		"not for a while":                {1, day(), time.Time{}, infrav1.PowerStateOn, "cycle/undone", nil},
		"not for a while, the second":    {2, day(), time.Time{}, infrav1.PowerStateOn, "cycle/undone", cycle(1, infrav1.PowerCycleDone, metav1.Time{Time: day()})},
		"not for a while, and it is off": {1, day(), time.Time{}, infrav1.PowerStateOff, "cycle/confirmed", nil},
		"switched off just before":       {1, day(), day().Add(-time.Second), infrav1.PowerStateOn, "cycle/interrupted-interval", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
				s.obs.ListeningSince = asked.Add(-2 * time.Hour)
				s.host.Spec.Claim.PowerCycle = cycle(tc.count, infrav1.PowerCycleOff, metav1.Time{})
				s.obs.Power, s.obs.UnpausedAt, s.obs.LastReset = tc.power, tc.paused, tc.switched
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != tc.rule {
				t.Fatalf("rule %s, want %s: %s", d.Rule, tc.rule, d.Message)
			}
			if save, saves := d.Step.(SaveLedger); saves && tc.rule == "cycle/undone" {
				if diff := cmp.Diff(tc.want, save.Ledger.Claim.PowerCycle); diff != "" {
					t.Errorf("power cycle (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A power cycle that its remediation ended counts if the host was off.
func TestEndedCycleCountsIfHostWasOff(t *testing.T) {
	cycle := func(count int32, confirmed, wasOn *bool) *infrav1.ClaimPowerCycle {
		return &infrav1.ClaimPowerCycle{Count: count, State: infrav1.PowerCycleOn, RequestTime: metav1.Time{Time: day()}, BootID: "b", ConfirmedOff: confirmed, WasOn: wasOn}
	}
	done := func(c *infrav1.ClaimPowerCycle) *infrav1.ClaimPowerCycle {
		c.State, c.CompletionTime = infrav1.PowerCycleDone, metav1.Time{Time: day()}
		return c
	}
	for name, tc := range map[string]struct {
		cycle *infrav1.ClaimPowerCycle
		power infrav1.PowerState
		rule  string
		want  *infrav1.ClaimPowerCycle
	}{
		"never off":             {cycle(1, nil, nil), infrav1.PowerStateOn, "cycle/none", nil},
		"never off, the second": {cycle(2, nil, nil), infrav1.PowerStateOn, "cycle/none", done(cycle(1, nil, nil))},
		"off after all":         {cycle(1, nil, nil), infrav1.PowerStateOff, "cycle/seen-off", cycle(1, new(true), new(true))},
		"was off":               {cycle(1, new(true), nil), infrav1.PowerStateOn, "cycle/done", done(cycle(1, new(true), nil))},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
				s.host.Spec.Claim.PowerCycle = tc.cycle
				s.obs.Power, s.obs.SeenOn = tc.power, true
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			save, saves := d.Step.(SaveLedger)
			if d.Rule != tc.rule || !saves {
				t.Fatalf("rule %s, want %s: %s", d.Rule, tc.rule, d.Message)
			}
			if diff := cmp.Diff(tc.want, save.Ledger.Claim.PowerCycle); diff != "" {
				t.Errorf("power cycle (-want +got):\n%s", diff)
			}
		})
	}
}

// The first power cycle of a claim records whether the host was on.
func TestFirstCycleRecordsPowerState(t *testing.T) {
	for name, tc := range map[string]struct {
		before *bool
		seenOn bool
		want   bool
	}{
		"on":                              {nil, true, true},
		"off":                             {nil, false, false},
		"on, the first found it off":      {new(false), true, false},
		"off by then, the first was told": {new(true), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
				s.host.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: metav1.Time{Time: day()}, WasOn: tc.before}
				s.obs.Power, s.obs.OffProven, s.obs.SeenOn = infrav1.PowerStateOff, true, tc.seenOn
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			save, saves := d.Step.(SaveLedger)
			if !saves || d.Rule != "cycle/confirmed" {
				t.Fatalf("rule %s: %s", d.Rule, d.Message)
			}
			if got := save.Ledger.Claim.PowerCycle.WasOn; got == nil || *got != tc.want {
				t.Errorf("was on: %v, want %t", got, tc.want)
			}
		})
	}
}
