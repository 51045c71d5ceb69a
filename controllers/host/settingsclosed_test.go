// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/needs"
)

// A BMC that does not expose settings blocks no work and is retried at growing intervals (I13).
func testUnreadableSettings(t *testing.T, on *testEnv) {
	reads := func(method, path string) bool {
		return method == http.MethodGet && strings.Contains(path, "/Bios")
	}
	writes := func(method, path string) bool {
		return method != http.MethodGet && strings.Contains(path, "/Bios")
	}
	for name, fault := range map[string]labbmc.Faults{
		"not read":       {Match: reads, Status: http.StatusInternalServerError},
		"not allowed":    {Match: reads, Status: http.StatusForbidden},
		"write refused":  {Match: writes, Status: http.StatusForbidden},
		"write conflict": {Match: writes, Status: http.StatusConflict},
		"write too soon": {Match: writes, Status: http.StatusServiceUnavailable},
	} {
		if rare := name == "write refused" || name == "write too soon"; rare && !needs.IsFull() {
			continue // as the conflict is
		}
		t.Run(name, func(t *testing.T) {
			m := prepared(t, on, "standard")
			m.lives("available", isAvailable)
			var asked atomic.Int32
			count := fault.Match
			fault.Match = func(method, path string) bool {
				if !count(method, path) {
					return false
				}
				asked.Add(1)
				return true
			}
			m.lab.SetFaults(fault)
			m.edit("h", wantSetting("SriovGlobalEnable", "Enabled"))
			boots := m.count("Reset On")
			for range 20 {
				m.tick()
			}
			m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
			m.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonPreparing)
			m.want("h", infrav1.HostPreparedCondition, metav1.ConditionUnknown, infrav1.ReasonBMCError)
			if asked.Load() > 3 || m.count("Reset On") != boots {
				t.Errorf("asked %d times in one moment, actions %q", asked.Load(), m.lab.Actions())
			}

			m.claim("h")
			m.lives("booted for its install", func(h *infrav1.IngotHost) bool {
				return h.Spec.Order != nil && h.Spec.Order.Kind == infrav1.OrderInstall && h.Status.Power == infrav1.PowerStateOn
			})
			m.edit("h", func(h *infrav1.IngotHost) {
				h.Spec.Claim.State, h.Spec.Order, h.Spec.BIOS.Apply = infrav1.ClaimProvisioned, nil, infrav1.BIOSAtNextReboot
			})
			m.clock.Step(m.Policy.AgentDeadline)
			asked.Store(0)
			for range 60 { // an hour
				m.clock.Step(time.Minute)
				m.tick()
				m.want("h", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)
			}
			if n := asked.Load(); n < 10 || n > 60 {
				t.Errorf("in an hour the BMC was asked %d times, want about 20", n)
			}
			if p := m.get("h").Spec.Record.Preparation; p != nil && p.Attempt != 0 {
				t.Errorf("counted against the host: %+v", p)
			}
			m.tick() // the last try may have been just now
			version := m.get("h").ResourceVersion
			for range 5 {
				m.tick()
			}
			if now := m.get("h").ResourceVersion; now != version {
				t.Error("the host is written at each reconcile")
			}
			if after := m.step("h").RequeueAfter; after < m.Poll/2 {
				t.Errorf("a host in use is looked at again after %s", after)
			}
			m.lab.SetFaults(labbmc.Faults{})
			m.lives("pending", isReason(infrav1.ReasonRebootPending))
		})
	}
}
