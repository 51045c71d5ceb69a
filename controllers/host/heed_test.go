// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// What counts as an order that was not heeded, and when it is one too many.
func TestOrders(t *testing.T) {
	const on, off, unknown = infrav1.PowerStateOn, infrav1.PowerStateOff, infrav1.PowerStateUnknown
	boot, hard, soft := inventory.BootAgent{}, inventory.PowerOff{}, inventory.PowerOff{Graceful: true}
	for name, tc := range map[string]struct {
		steps []inventory.Step
		shown []infrav1.PowerState
		fails int
	}{
		"none":                  {nil, []infrav1.PowerState{off, on}, 0},
		"heeded":                {[]inventory.Step{boot, boot, boot}, []infrav1.PowerState{on, off, off}, 0},
		"two":                   {[]inventory.Step{boot, boot}, []infrav1.PowerState{off, off}, 0},
		"three":                 {[]inventory.Step{boot, boot, boot}, []infrav1.PowerState{off}, 1},
		"three, then one more":  {[]inventory.Step{hard, hard, hard}, []infrav1.PowerState{on, on, on}, 1},
		"changes its mind":      {[]inventory.Step{hard, hard, boot}, []infrav1.PowerState{off}, 0},
		"soft orders":           {[]inventory.Step{soft, soft, soft}, []infrav1.PowerState{on}, 0},
		"soft between":          {[]inventory.Step{hard, hard, soft, hard}, []infrav1.PowerState{on}, 0},
		"on its way":            {[]inventory.Step{boot, boot, boot}, []infrav1.PowerState{unknown, on}, 0},
		"restarts are no proof": {[]inventory.Step{inventory.Restart{}, inventory.Restart{}, inventory.Restart{}}, []infrav1.PowerState{off}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var o orders
			for _, step := range tc.steps {
				o = o.after(step)
			}
			fails := 0
			for _, shown := range tc.shown {
				var err error
				if o, err = o.seen(shown); err != nil {
					fails++
				}
			}
			if fails != tc.fails {
				t.Errorf("%d failures, want %d (%+v)", fails, tc.fails, o)
			}
		})
	}
}

// ignoredFor lets reset intervals pass and returns how many orders the BMC was given. Once
// it is said to fail it goes on failing, however the tries and the reads between them fall,
// and people are told once.
func (y *yard) ignoredFor(intervals int) (took int) {
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
		case now.Status != metav1.ConditionFalse || !now.LastTransitionTime.Equal(&first.LastTransitionTime) || ready.Reason != infrav1.ReasonBMCError:
			y.t.Fatalf("taken back at interval %d, after %d orders: %+v, %+v", i, took, now, ready)
		}
	}
	y.toldOnce(infrav1.ReasonBMCError)
	return took
}

// testRefused: a BMC that answers, and takes no order to switch on, keeps a host from
// its work, and is told so; the host is not quarantined for it.
func testRefused(t *testing.T, on *ground) {
	y := newYard(t, on)
	y.ready("h")
	y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
	y.bmc.set(func(f *fakeBMC) { f.writeErr = fmt.Errorf("412: %w", bmc.ErrProtocol) })
	took := y.ignoredFor(240) // two hours: eight deadlines of an agent
	if took < 20 || took > 45 {
		t.Errorf("%d orders in two hours, want one in 3 to 5 minutes", took)
	}
	y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCError)
	host := y.get("h")
	if host.Spec.Order == nil || host.Spec.Order.Attempt != 1 || host.Spec.Record != nil && host.Spec.Record.Failures > 0 {
		t.Errorf("held against the host: order %+v, record %+v", host.Spec.Order, host.Spec.Record)
	}
	y.bmc.set(func(f *fakeBMC) { f.writeErr = nil })
	y.clock.Step(2 * backoffCap)
	y.untilBoot("h", infrav1.OrderInspect)
}

// testUnheeded: a BMC that takes every order and shows the server as it was is told so
// in its condition, and asked ever less often; what it does in the end counts.
func testUnheeded(t *testing.T, on *ground) {
	y := newYard(t, on)
	y.ready("h")
	y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
	took := y.ignoredFor(60)
	if took < maxUnheeded || took > 30 {
		t.Errorf("%d orders in 60 reset intervals", took)
	}
	message := y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCError).Message
	if !strings.Contains(message, "3 orders in a row to switch the server On, and shows it Off") {
		t.Errorf("message %q", message)
	}
	y.bmc.set(func(f *fakeBMC) { f.power = "On" })
	y.clock.Step(2 * backoffCap)
	y.step("h")
	y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCAnswers)
}
