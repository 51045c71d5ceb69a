// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// After a pause the remediation gives the Node time, then requests the same power cycle again.
func TestInterruptedCycleIsRequestedAgain(t *testing.T) {
	remediation, obs := newRemediation()
	remediation.Spec.RetryLimit = new(int32(1))
	obs.Host.Spec.Claim.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0)
	obs.Host.Status.Power = infrav1.PowerStateOn
	restart := minutes(1).Time // of the manager
	seen := lifecycle.Observation{Now: restart, ListeningSince: restart, Power: infrav1.PowerStateOn, Machine: lifecycle.MachineExists}
	save, saves := lifecycle.Next(obs.Host, seen, lifecycle.DefaultPolicy()).Step.(lifecycle.SaveLedger)
	if !saves {
		t.Fatal("the power cycle is not taken back")
	}
	obs.Host.Spec.Claim = save.Ledger.Claim
	obs.Now, obs.ActiveSince = restart, restart
	if d := Decide(remediation, obs); d.Rule != "grace" {
		t.Fatalf("rule %s: %s", d.Rule, d.Message)
	}
	obs.Now = minutes(11).Time
	d := Decide(remediation, obs)
	again, asks := d.Step.(SaveLedger)
	if !asks || d.Rule != "cycle" {
		t.Fatalf("rule %s: %s", d.Rule, d.Message)
	}
	want := &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(11), BootID: "boot-1"}
	if diff := cmp.Diff(want, again.Ledger.Claim.PowerCycle); diff != "" {
		t.Errorf("power cycle (-want +got):\n%s", diff)
	}
}
