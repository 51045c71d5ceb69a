// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// A power cycle is done when it is asked for, and not at the end of a pause or at the
// start of a manager: the server may be well by then, or booting.
func testCycleInterrupted(t *testing.T, on *ground) {
	for name, tc := range map[string]struct {
		between func(*yard)
		told    string
	}{
		"nothing between": {func(*yard) {}, string(bmc.ActionForceOff)},
		"a pause": {func(y *yard) {
			y.annotate("h", map[string]string{clusterv1.PausedAnnotation: ""})
			y.step("h")
			y.clock.Step(3 * time.Hour)
			y.annotate("h", nil)
			y.step("h")
		}, ""},
		"another manager": {func(y *yard) {
			y.clock.Step(3 * time.Hour)
			y.Reconciler.memory = hostMemory{}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, on)
			y.longInUse()
			y.edit("h", func(h *infrav1.IngotHost) {
				h.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, AskedAt: metav1.NewTime(y.clock.Now())}
			})
			tc.between(y)
			y.step("h")
			if told := y.bmc.took(); told != tc.told {
				t.Errorf("the BMC is told %q, want %q", told, tc.told)
			}
			if cycle := y.get("h").Spec.Claim.PowerCycle; (cycle == nil) != (tc.told == "") {
				t.Errorf("power cycle %+v", cycle)
			}
		})
	}
}
