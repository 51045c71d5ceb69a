// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Tools such as Flux (kstatus) see the generation that Ingot acted on, and do not wait for a host
// that only an operator can repair.
func testObservedGenerationForKstatus(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h", func(h *infrav1.IngotHost) {
		h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(y.clock.Now())}
	})
	observed := func(h *infrav1.IngotHost) bool { return h.Status.ObservedGeneration == h.Generation }
	check := func(what, reason string) {
		t.Helper()
		h := y.until("h", what, func(h *infrav1.IngotHost) bool {
			return conditions.GetReason(h, infrav1.ReadyCondition) == reason && observed(h)
		})
		stalled := conditions.Get(h, infrav1.StalledCondition)
		if want := reason != infrav1.ReasonAvailable; stalled == nil || (stalled.Status == metav1.ConditionTrue) != want {
			t.Errorf("%s: Stalled is %+v, want %t", what, stalled, want)
		}
	}
	check("Available", infrav1.ReasonAvailable)
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Maintenance = ptr.To(true) })
	if observed(y.get("h")) {
		t.Error("a change is observed before Ingot has looked")
	}
	check("in maintenance", infrav1.ReasonMaintenance)
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Maintenance = nil })
	check("Available again", infrav1.ReasonAvailable)
	y.edit("h", func(h *infrav1.IngotHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	y.step("h")
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })
	y.step("h")
	if h := y.get("h"); observed(h) || !conditions.IsTrue(h, infrav1.PausedCondition) {
		t.Errorf("a pause acts on generation %d of %d: %+v", h.Status.ObservedGeneration, h.Generation, conditions.Get(h, infrav1.PausedCondition))
	}
}
