// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// The deletion of a host waits for its firmware update, so that no other host registers and power-cycles
// the server in that time. An operator can force it.
func testDeletionWaitsForFirmwareUpdate(t *testing.T, on *testEnv) {
	for name, end := range map[string]func(*simHost){
		"done": func(m *simHost) { m.lab.SetFaults() },
		"forced": func(m *simHost) {
			m.edit("h", func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: commandAt(m.clock.Now())}
			})
		},
		"the BMC never comes back": func(m *simHost) {
			m.lab.SetFaults(labbmc.Faults{Drop: true})
			m.clock.Step(m.Policy.UpdateSilence)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := prepared(t, on, "standard", wantFirmware("BIOS", "9.9", images(t)+"/BIOS-9.9"))
			m.lab.SetFaults(labbmc.Faults{Match: func(method, path string) bool { return method == http.MethodGet && strings.Contains(path, "/Tasks/") },
				Body: `{"TaskState": "Running", "TaskStatus": "OK", "PercentComplete": 40}`})
			m.lives("updating", func(h *infrav1.IngotHost) bool {
				return isUpdating(h) && h.Spec.Record.Preparation.Update.State == infrav1.UpdateAccepted
			})
			told := len(m.lab.Actions())
			must(m.fixture, m.api.Delete(m.ctx, m.get("h")))
			for range 5 {
				m.clock.Step(time.Minute)
				m.tick()
			}
			m.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonUpdatingFirmware)
			end(m)
			for range 10 {
				if m.get("h") == nil {
					break
				}
				m.clock.Step(time.Minute)
				m.tick()
			}
			if host := m.get("h"); host != nil {
				t.Errorf("never let go: %+v", host.Status.Conditions)
			}
			if more := m.lab.Actions()[told:]; len(more) > 0 {
				t.Errorf("the BMC of a deleted host gets %q", more)
			}
		})
	}
}
