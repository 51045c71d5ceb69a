// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// testUnresponsiveNetwork: a boot server that is down quarantines no hosts. A single silent host
// counts as before. Networks span namespaces.
func testUnresponsiveNetwork(t *testing.T, on *testEnv) {
	y, far := newFixture(t, on), newFixture(t, on)
	y.ready("h")
	y.ready("a")
	far.ready("b", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = y.ns })
	waits := func(at *fixture, name string) {
		now := metav1.NewTime(y.clock.Now())
		at.edit(name, func(h *infrav1.IngotHost) {
			h.Spec.Order = &infrav1.HostOrder{ID: y.NewID(), Kind: infrav1.OrderInspect, Attempt: 1, CreationTime: now}
		})
		at.status(name, func(s *infrav1.IngotHostStatus) { s.LastResetTime, s.Power = now, infrav1.PowerStateOn })
	}
	inVain := func(meanwhile func()) (reason string) {
		y.untilBoot("h", infrav1.OrderInspect)
		y.clock.Step(y.Policy.AgentDeadline - time.Minute)
		waits(y, "a")
		waits(far, "b")
		meanwhile()
		y.clock.Step(time.Minute)
		host := y.until("h", "given up", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil && h.Spec.Order.Result != nil })
		reason = host.Spec.Order.Result.Reason
		if reason == infrav1.ReasonNetworkUnresponsive && !strings.Contains(host.Spec.Order.Result.Message, y.ns+" have been silent for 15m0s, on 2 other hosts too") {
			t.Errorf("message %q", host.Spec.Order.Result.Message)
		}
		y.step("h")
		y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
		y.bmc.took()
		return reason
	}
	for range y.Policy.MaxAttempts + 1 {
		if got := inVain(func() {}); got != infrav1.ReasonNetworkUnresponsive {
			t.Fatalf("reason %s", got)
		}
	}
	if r := y.get("h").Spec.Record; r != nil && (r.Failures > 0 || r.Quarantine != nil) {
		t.Fatalf("held against the host: %+v", r)
	}

	// The last contact of an agent counts after its order.
	far.ready("c", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = y.ns })
	waits(far, "c")
	if got := inVain(func() {
		y.edit("a", func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = strings.Repeat("a", 64) })
		y.status("a", func(s *infrav1.IngotHostStatus) {
			order := y.get("a").Spec.Order
			s.Operation = &infrav1.HostOperation{Kind: order.Kind, StartTime: order.CreationTime, LastContactTime: metav1.NewTime(y.clock.Now())}
		})
		for range 4 { // finalizer and pause come first
			y.step("a")
		}
		y.edit("a", func(h *infrav1.IngotHost) { h.Spec.Order = nil })
		waits(far, "c")
	}); got != infrav1.ReasonNoAgentContact {
		t.Fatalf("with one that was heard: reason %s", got)
	}
	y.until("h", "counted", func(h *infrav1.IngotHost) bool { return h.Spec.Record != nil && h.Spec.Record.Failures == 1 })
}
