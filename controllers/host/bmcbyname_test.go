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
	"github.com/ingot-metal/ingot/internal/timing"
)

// testSameBMCByName: a host whose BMC name resolves to the BMC of another host gets no connection
// and is a duplicate. Once the name resolves elsewhere, both hosts are used.
func testSameBMCByName(t *testing.T, on *testEnv) {
	for name, address := range map[string]string{"an IP address": "redfish://10.77.0.%d", "a name": "redfish://owner-%d.example"} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			n := number()
			ip := fmt.Sprintf("10.77.0.%d", n%250)
			at := fmt.Sprintf(address, n%250)
			owner := y.ready("a-owner", func(h *infrav1.IngotHost) { h.Spec.BMC.Address = at })
			y.bmc.leads = map[string]string{owner.Spec.BMC.Address: ip}
			y.until("a-owner", "known", func(h *infrav1.IngotHost) bool { return conditions.IsTrue(h, infrav1.HostBMCReachableCondition) })
			alias := y.ready("b-alias")
			y.bmc.leads[alias.Spec.BMC.Address] = ip
			reads := y.bmc.readsSoFar()
			for range 4 {
				y.step("b-alias")
			}
			if n := y.bmc.readsSoFar(); n != reads {
				t.Errorf("%d reads by the other name", n-reads)
			}
			y.want("b-alias", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonDuplicate)
			y.step("a-owner")
			y.want("a-owner", infrav1.HostUniqueCondition, metav1.ConditionTrue, infrav1.HostUniqueCondition)
			y.bmc.leads[alias.Spec.BMC.Address] = "10.78.0.1"
			y.clock.Step(timing.Default().BMCBackoffMax)
			for range 2 {
				y.step("b-alias")
			}
			y.want("b-alias", infrav1.HostUniqueCondition, metav1.ConditionTrue, infrav1.HostUniqueCondition)
		})
	}
}

// testBMCNotAllowed: a host whose BMC address --bmc-sources no longer allows keeps running and
// shows the remedy. Ingot uses the BMC again once the operator allows the address.
func testBMCNotAllowed(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.inUse("h")
	y.bmc.set(func(f *fakeBMC) { f.power, f.readErr = bmc.PowerOn, &bmc.SourceError{Host: "169.254.0.7"} })
	for range 4 {
		y.step("h")
		y.clock.Step(timing.Default().BMCBackoffMax)
	}
	c := y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCAddressNotAllowed)
	for _, want := range []string{"spec.bmc.address", "169.254.0.7", "add its network to --bmc-sources", "keeps running"} {
		if !strings.Contains(c.Message, want) || len(c.Message) > 200 {
			t.Errorf("%d bytes: %q, want %q", len(c.Message), c.Message, want)
		}
	}
	if h := y.get("h"); h.Spec.Claim == nil || h.Spec.Claim.State != infrav1.ClaimProvisioned || h.Spec.Record != nil && h.Spec.Record.Quarantine != nil {
		t.Errorf("the host in use changed: %+v", h.Spec)
	}
	if took := y.bmc.took(); took != "" {
		t.Errorf("the server was sent %s", took)
	}
	y.bmc.set(func(f *fakeBMC) { f.readErr = nil })
	y.clock.Step(timing.Default().BMCBackoffMax)
	y.step("h")
	y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
}
