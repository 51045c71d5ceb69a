// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// A boot server that is down puts no hosts into quarantine, however often they are tried
// in vain; a host that alone is silent is counted as before.
func testNetworkSilent(t *testing.T, on *ground) {
	y := newYard(t, on)
	y.ready("h")
	waits := func(name string) {
		y.ready(name)
		y.edit(name, func(h *infrav1.IngotHost) {
			h.Spec.Order = &infrav1.HostOrder{ID: y.NewID(), Kind: infrav1.OrderInspect, Attempt: 1, CreatedAt: metav1.NewTime(y.clock.Now())}
		})
		y.status(name, func(s *infrav1.IngotHostStatus) { s.LastResetTime = metav1.NewTime(y.clock.Now()) })
	}
	inVain := func() (reason string) {
		y.untilBoot("h", infrav1.OrderInspect)
		y.clock.Step(y.Policy.AgentDeadline)
		host := y.until("h", "given up", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil && h.Spec.Order.Result != nil })
		reason = host.Spec.Order.Result.Reason
		if reason == infrav1.ReasonNetworkSilent && !strings.Contains(host.Spec.Order.Result.Message, y.ns+" for 15m0s, for which 2 other hosts wait too") {
			t.Errorf("message %q", host.Spec.Order.Result.Message)
		}
		y.step("h")
		y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
		y.bmc.took()
		return reason
	}
	waits("a")
	waits("b")
	for range y.Policy.MaxAttempts + 1 {
		if got := inVain(); got != infrav1.ReasonNetworkSilent {
			t.Fatalf("reason %s", got)
		}
	}
	if r := y.get("h").Spec.Record; r != nil && (r.Failures > 0 || r.Quarantine != nil) {
		t.Fatalf("held against the host: %+v", r)
	}
	y.edit("a", func(h *infrav1.IngotHost) { h.Spec.Order = nil })
	if got := inVain(); got != infrav1.ReasonNoAgentContact {
		t.Fatalf("with one other that waits: reason %s", got)
	}
	y.until("h", "counted", func(h *infrav1.IngotHost) bool { return h.Spec.Record != nil && h.Spec.Record.Failures == 1 })
}
