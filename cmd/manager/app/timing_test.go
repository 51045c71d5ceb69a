// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
)

// Shorten divides all durations by one factor, and no duration is zero.
func TestShorten(t *testing.T) {
	o, before := DefaultOptions(), DefaultOptions()
	waits, err := o.Shorten(10)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range waits {
		names = append(names, w.Name)
		if w.Normal <= 0 || w.Short != w.Normal/10 {
			t.Errorf("%s", w)
		}
	}
	for _, name := range []string{
		"SyncPeriod", "PowerPoll", "MoveRest", "Policy.SoftPowerOff", "Policy.AgentDeadline", "Policy.ResetInterval", "Policy.RetryMax",
		"BMC.CallTimeout", "BMC.IdleTimeout", "BMC.CloseTimeout", "BMC.TransferTimeout", "BMC.Pause.Base", "BMC.Pause.Max",
		"Timing.BMCCalls", "Timing.BMCBackoffFirst", "Timing.BMCBackoffMax", "Timing.PowerSettle", "Timing.FirmwarePush",
		"Timing.Placement", "Timing.Conflict", "Timing.PoolAnswer", "BootWaits.Quiet", "BootWaits.Interval", "Timing.ReservationCheck", "Timing.ReservationPaused", "Timing.ImageCheck", "Timing.ImageRetry",
		"Timing.RemediationCheck", "Timing.RemediationIdle", "Timing.NodeCheck", "Timing.LabelDispute",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
	for _, name := range names {
		if name == "LeaderElectLease" {
			t.Error("the lease duration was shortened")
		}
	}
	if o.Policy.AgentDeadline != 90*time.Second || o.BMC.Pause.Max != bmc.DefaultPauseMax/10 || o.Timing.PowerSettle != timing.Default().PowerSettle/10 {
		t.Errorf("options: %+v %+v %+v", o.Policy, o.BMC, o.Timing)
	}
	if o.BMC.RateLimit.Rate != 10*bmc.DefaultRequestRate || o.BMC.RateLimit.Burst != bmc.DefaultRequestBurst {
		t.Errorf("pace: %+v", o.BMC.RateLimit)
	}
	if diff := cmp.Diff(before.LeaderElectLease, o.LeaderElectLease); diff != "" {
		t.Errorf("lease:\n%s", diff)
	}
	for _, factor := range []int{0, -1, MaxShorten + 1} {
		if _, err := o.Shorten(factor); err == nil {
			t.Errorf("factor %d was accepted", factor)
		}
	}
}
