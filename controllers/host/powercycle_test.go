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

// A power cycle is made when it is requested, not after a pause or a restart of the manager: the
// server may be healthy by then.
func testInterruptedPowerCycleIsDropped(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		between func(*fixture)
		told    string
	}{
		"nothing between": {func(*fixture) {}, string(bmc.ActionForceOff)},
		"a pause": {func(y *fixture) {
			y.annotate("h", map[string]string{clusterv1.PausedAnnotation: ""})
			y.step("h")
			y.clock.Step(3 * time.Hour)
			y.annotate("h", nil)
			y.step("h")
		}, ""},
		"another manager": {func(y *fixture) {
			y.clock.Step(3 * time.Hour)
			y.Reconciler.memory = hostMemory{}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.longInUse()
			y.edit("h", func(h *infrav1.IngotHost) {
				h.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: metav1.NewTime(y.clock.Now())}
			})
			tc.between(y)
			y.step("h")
			if told := y.bmc.took(); told != tc.told {
				t.Errorf("the BMC gets %q, want %q", told, tc.told)
			}
			if cycle := y.get("h").Spec.Claim.PowerCycle; (cycle == nil) != (tc.told == "") {
				t.Errorf("power cycle %+v", cycle)
			}
		})
	}
}
