// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	policy "github.com/ingot-metal/ingot/inventory/remediation"
)

func TestPowerAcks(t *testing.T) {
	const on, off, unknown = infrav1.PowerStateOn, infrav1.PowerStateOff, infrav1.PowerStateUnknown
	boot, hard, soft := lifecycle.BootAgent{}, lifecycle.PowerOff{}, lifecycle.PowerOff{Graceful: true}
	for name, tc := range map[string]struct {
		steps []lifecycle.Step
		shown []infrav1.PowerState
		fails int
	}{
		"none":                  {nil, []infrav1.PowerState{off, on}, 0},
		"carried out":           {[]lifecycle.Step{boot, boot, boot}, []infrav1.PowerState{on, off, off}, 0},
		"two":                   {[]lifecycle.Step{boot, boot}, []infrav1.PowerState{off, off}, 0},
		"three":                 {[]lifecycle.Step{boot, boot, boot}, []infrav1.PowerState{off}, 1},
		"three, then one more":  {[]lifecycle.Step{hard, hard, hard}, []infrav1.PowerState{on, on, on}, 1},
		"changes its mind":      {[]lifecycle.Step{hard, hard, boot}, []infrav1.PowerState{off}, 0},
		"soft orders":           {[]lifecycle.Step{soft, soft, soft}, []infrav1.PowerState{on}, 0},
		"soft between":          {[]lifecycle.Step{hard, hard, soft, hard}, []infrav1.PowerState{on}, 0},
		"on its way":            {[]lifecycle.Step{boot, boot, boot}, []infrav1.PowerState{unknown, on}, 0},
		"restarts are no proof": {[]lifecycle.Step{lifecycle.Restart{}, lifecycle.Restart{}, lifecycle.Restart{}}, []infrav1.PowerState{off}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var o powerAcks
			for _, step := range tc.steps {
				o = o.sent(step)
			}
			fails := 0
			for _, shown := range tc.shown {
				var err error
				if o, err = o.seen(shown, true, false); err != nil {
					fails++
				}
			}
			if fails != tc.fails {
				t.Errorf("%d failures, want %d (%+v)", fails, tc.fails, o)
			}
		})
	}
}

// A rejected action that was to confirm the reported state is not confirmed by the same report.
func TestRejectedPowerActions(t *testing.T) {
	const on, off = infrav1.PowerStateOn, infrav1.PowerStateOff
	for name, tc := range map[string]struct {
		step          lifecycle.Step
		before, shown infrav1.PowerState
		unproven      bool
		left          bool
	}{
		"off, and it goes off":           {lifecycle.PowerOff{}, on, off, true, false},
		"off, and it stays on":           {lifecycle.PowerOff{}, on, on, true, true},
		"on, by the power button":        {lifecycle.PowerOn{}, off, on, true, false},
		"a proof, and it says off again": {lifecycle.PowerOff{}, off, off, true, true},
		"a proof that is not needed now": {lifecycle.PowerOff{}, off, off, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := powerAcks{}.refused(tc.step, tc.before).seen(tc.shown, tc.unproven, false)
			if err != nil || o.pending() != tc.left {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
	if o, _ := (powerAcks{}).refused(lifecycle.PowerOff{}, off).sent(lifecycle.PowerOff{}).seen(off, true, false); o != (powerAcks{}) {
		t.Errorf("one that is taken then leaves %+v", o)
	}
}

// Rejected actions do not count as accepted, unanswered ones have their own error, and nothing
// counts while the BMC's report may lag.
func TestPowerActionsInARow(t *testing.T) {
	const on, off = infrav1.PowerStateOn, infrav1.PowerStateOff
	boot, cut := lifecycle.BootAgent{}, lifecycle.PowerOff{}
	took := func(step lifecycle.Step) func(powerAcks) powerAcks {
		return func(o powerAcks) powerAcks { return o.sent(step) }
	}
	refused := func(step lifecycle.Step, shown infrav1.PowerState) func(powerAcks) powerAcks {
		return func(o powerAcks) powerAcks { return o.refused(step, shown) }
	}
	unanswered := func(step lifecycle.Step, shown infrav1.PowerState) func(powerAcks) powerAcks {
		return func(o powerAcks) powerAcks { return o.sent(step).unanswered(shown) }
	}
	type all = []func(powerAcks) powerAcks
	for name, tc := range map[string]struct {
		given          all
		shown          infrav1.PowerState
		unproven, lags bool
		want           lifecycle.BMCProblem
		left           int
	}{
		"three taken":                          {all{took(boot), took(boot), took(boot)}, off, false, false, lifecycle.BMCIgnoresPower, 2},
		"three taken, the last a moment ago":   {all{took(boot), took(boot), took(boot)}, off, false, true, lifecycle.BMCOK, 3},
		"three taken, and on a moment later":   {all{took(boot), took(boot), took(boot)}, on, false, true, lifecycle.BMCOK, 0},
		"refused, and one taken":               {all{refused(boot, off), refused(boot, off), refused(boot, off), took(boot)}, off, false, false, lifecycle.BMCOK, 1},
		"two taken, one refused, and one more": {all{took(boot), took(boot), refused(boot, off), took(boot)}, off, false, false, lifecycle.BMCOK, 1},
		"a proof without an answer":            {all{unanswered(cut, off)}, off, true, false, lifecycle.BMCOK, 1},
		"three":                                {all{unanswered(cut, off), unanswered(cut, off), unanswered(cut, off)}, off, true, false, lifecycle.BMCTimeout, 2},
		"three, the last a moment ago":         {all{unanswered(cut, off), unanswered(cut, off), unanswered(cut, off)}, off, true, true, lifecycle.BMCOK, 3},
		"three, and it is proved otherwise":    {all{unanswered(cut, off), unanswered(cut, off), unanswered(cut, off)}, off, false, false, lifecycle.BMCOK, 0},
		"no answer, and it goes off":           {all{unanswered(cut, on)}, off, true, false, lifecycle.BMCOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var o powerAcks
			for _, give := range tc.given {
				o = give(o)
			}
			o, err := o.seen(tc.shown, tc.unproven, tc.lags)
			problem := lifecycle.BMCOK
			if err != nil {
				problem = problemOf(err)
			}
			if problem != tc.want || o.n != tc.left {
				t.Errorf("%q (%v), and %+v is left; want %q and %d", problem, err, o, tc.want, tc.left)
			}
		})
	}
}

// The time of a boot starts with the first accepted boot of the order after the last rejection.
func TestBootAcks(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	order := &infrav1.HostOrder{ID: "1"}
	boot := lifecycle.BootAgent{}
	for name, tc := range map[string]struct {
		b    bootAcks
		of   *infrav1.HostOrder
		want time.Time
	}{
		"none":                        {bootAcks{}, order, time.Time{}},
		"taken twice":                 {bootAcks{}.accepted(order, boot, at(1)).accepted(order, boot, at(2)), order, at(1)},
		"one was refused":             {bootAcks{}.accepted(order, boot, at(1)).refused(boot).accepted(order, boot, at(2)), order, at(2)},
		"the last one was refused":    {bootAcks{}.accepted(order, boot, at(1)).refused(boot), order, time.Time{}},
		"a cut was refused":           {bootAcks{}.accepted(order, boot, at(1)).refused(lifecycle.PowerOff{}), order, at(1)},
		"a cut was taken":             {bootAcks{}.accepted(order, lifecycle.PowerOff{}, at(1)), order, time.Time{}},
		"of another order":            {bootAcks{}.accepted(order, boot, at(1)), &infrav1.HostOrder{ID: "2"}, time.Time{}},
		"of another order, and again": {bootAcks{}.accepted(&infrav1.HostOrder{ID: "2"}, boot, at(1)).accepted(order, boot, at(2)), order, at(2)},
		"without an order":            {bootAcks{}.accepted(nil, boot, at(1)), nil, time.Time{}},
	} {
		if got := tc.b.of(tc.of); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// ignoredFor steps through reset intervals and returns the number of power actions. It checks that
// the failure is shown continuously and recorded once.
func (y *fixture) ignoredFor(intervals int, reason string) (took int) {
	y.t.Helper()
	var first *metav1.Condition
	for i := range intervals {
		y.clock.Step(y.Policy.ResetInterval)
		y.step("h")
		if writes := y.bmc.took(); writes != "" {
			took++
		}
		host := y.get("h")
		now := conditions.Get(host, infrav1.HostBMCReachableCondition)
		switch ready := conditions.Get(host, infrav1.ReadyCondition); {
		case first == nil && now.Status == metav1.ConditionFalse:
			first = now
		case first == nil:
		case now.Status != metav1.ConditionFalse || !now.LastTransitionTime.Equal(&first.LastTransitionTime) || ready.Reason != reason:
			y.t.Fatalf("taken back at interval %d, after %d orders: %+v, %+v", i, took, now, ready)
		}
	}
	y.recordedOnce(reason)
	return took
}

// testRejectedPowerOn: a BMC that rejects power-on blocks the host and is shown as failing. The
// host is not quarantined.
func testRejectedPowerOn(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
	y.bmc.set(func(f *fakeBMC) { f.writeErr = fmt.Errorf("412: %w", bmc.ErrProtocol) })
	took := y.ignoredFor(240, infrav1.ReasonBMCError) // two hours: eight deadlines of an agent
	if took < 20 || took > 45 {
		t.Errorf("%d orders in two hours, want one in 3 to 5 minutes", took)
	}
	y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCError)
	host := y.get("h")
	if host.Spec.Order == nil || host.Spec.Order.Attempt != 1 || host.Spec.Record != nil && host.Spec.Record.Failures > 0 {
		t.Errorf("held against the host: order %+v, record %+v", host.Spec.Order, host.Spec.Record)
	}
	y.bmc.set(func(f *fakeBMC) { f.writeErr = nil })
	y.clock.Step(2 * timing.Default().BMCBackoffMax)
	y.untilBoot("h", infrav1.OrderInspect)
}

// testIgnoredPowerActions: a BMC that accepts power actions without effect is shown as failing and
// retried with backoff until one has an effect.
func testIgnoredPowerActions(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
	took := y.ignoredFor(60, infrav1.ReasonPowerActionIgnored)
	if took < maxIgnored || took > 30 {
		t.Errorf("%d orders in 60 reset intervals", took)
	}
	message := y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonPowerActionIgnored).Message
	if !strings.Contains(message, "accepted 3 power-on requests but still reports Off") {
		t.Errorf("message %q", message)
	}
	y.bmc.set(func(f *fakeBMC) { f.power = "On" })
	y.clock.Step(2 * timing.Default().BMCBackoffMax)
	y.step("h")
	y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
}

// testRepairedBMCStartsWithACleanRecord: failures before a repair of the BMC do not count, and the
// first accepted boot gets its full time.
func testRepairedBMCStartsWithACleanRecord(t *testing.T, on *testEnv) {
	for name, correct := range map[string]func(*fixture){
		"and it is to be tried": func(y *fixture) {
			y.annotate("h", map[string]string{infrav1.RetryBMCAnnotation: commandAt(y.clock.Now())})
		},
		"and nothing says so": func(y *fixture) { y.clock.Step(2 * timing.Default().BMCBackoffMax) },
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h")
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{Failures: 2} })
			y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
			y.bmc.set(func(f *fakeBMC) { f.writeErr = fmt.Errorf("412: %w", bmc.ErrProtocol) })
			for range 120 {
				y.clock.Step(y.Policy.ResetInterval)
				y.step("h")
			}
			y.bmc.set(func(f *fakeBMC) { f.writeErr = nil })
			correct(y)
			var took time.Time
			for end := y.clock.Now().Add(time.Hour); y.get("h").Spec.Record.Failures == 2 && y.clock.Now().Before(end); y.clock.Step(y.Policy.ResetInterval) {
				y.step("h")
				if y.bmc.took() == "boot PXE UEFI, On" && took.IsZero() {
					took = y.clock.Now()
				}
			}
			if record := y.get("h").Spec.Record; took.IsZero() || record.Failures != 3 {
				t.Fatalf("took an order: %t; record %+v", !took.IsZero(), record)
			}
			if had := y.clock.Since(took); had < y.Policy.AgentDeadline || had > y.Policy.AgentDeadline+2*timing.Default().BMCBackoffMax {
				t.Errorf("the boot that was taken counts as failed after %s", had)
			}
		})
	}
}

// testFirstAcceptedBootGetsItsTime: the first accepted action after rejections gets the time that
// servers need.
func testFirstAcceptedBootGetsItsTime(t *testing.T, on *testEnv) {
	const lag = 10 * time.Second
	y := newFixture(t, on)
	y.ready("h")
	y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
	y.bmc.set(func(f *fakeBMC) { f.writeErr = fmt.Errorf("503: %w", bmc.ErrBusy) })
	for refused := 0; refused < 6; y.clock.Step(y.Policy.ResetInterval) {
		y.step("h")
		if y.bmc.took() != "" {
			refused++
		}
	}
	y.bmc.set(func(f *fakeBMC) { f.writeErr = nil })
	var took time.Time
	for end := y.clock.Now().Add(15 * time.Minute); y.get("h").Status.Power != infrav1.PowerStateOn && y.clock.Now().Before(end); {
		if !took.IsZero() && y.clock.Since(took) >= lag {
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
		}
		after := y.step("h").RequeueAfter
		if y.bmc.took() != "" && took.IsZero() {
			took = y.clock.Now()
		}
		if y.get("h").Status.Power != infrav1.PowerStateOn {
			y.clock.Step(after)
		}
	}
	if seen := y.clock.Since(took); took.IsZero() || seen > 35*time.Second {
		t.Errorf("it is seen on %s after the order", seen)
	}
	for _, event := range y.all() {
		if strings.Contains(event, infrav1.ReasonPowerActionIgnored) {
			t.Errorf("one order was taken: %s", event)
		}
	}
}

// testFailedPowerCycleQuarantines: a server that stays off after its power cycle is taken out of
// service, whether its BMC accepts or rejects the action, but not if the BMC does not answer.
func testFailedPowerCycleQuarantines(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		change func(*fakeBMC)
		rule   string
	}{
		"ignored": {func(*fakeBMC) {}, "cycling/failed"},
		"refused": {func(f *fakeBMC) { f.writeErr = fmt.Errorf("412: %w", bmc.ErrProtocol) }, "cycling/failed"},
		"busy":    {func(f *fakeBMC) { f.writeErr = fmt.Errorf("503: %w", bmc.ErrBusy) }, "cycling/untried"},
		"silent":  {func(f *fakeBMC) { f.readErr = bmc.ErrUnreachable }, "cycling/untried"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h")
			y.inspect("h")
			y.claim("h")
			y.untilBoot("h", infrav1.OrderInstall)
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil })
			y.until("h", "provisioned", func(h *infrav1.IngotHost) bool { return h.Status.Phase == infrav1.PhaseProvisioned })
			y.clock.Step(time.Hour)
			y.step("h")
			asked := y.clock.Now()
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff; tc.change(f) })
			y.edit("h", func(h *infrav1.IngotHost) {
				h.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: metav1.NewTime(asked)}
			})
			for y.clock.Since(asked) < 10*time.Minute {
				y.step("h")
				y.clock.Step(5 * time.Second)
			}
			host := y.get("h")
			r := &infrav1.IngotRemediation{ObjectMeta: metav1.ObjectMeta{Name: "m", CreationTimestamp: metav1.NewTime(asked)}}
			d := policy.Decide(r, policy.Observation{Now: y.clock.Now(), ActiveSince: asked, Host: host})
			if d.Rule != tc.rule {
				t.Errorf("rule %s, want %s; BMCReachable: %+v", d.Rule, tc.rule, conditions.Get(host, infrav1.HostBMCReachableCondition))
			}
		})
	}
}
