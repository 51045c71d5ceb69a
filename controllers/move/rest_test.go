// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// moment is a time of these tests, in seconds.
func moment(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

// movedHost is a busy host that was paused elsewhere at 1000 and created here at 1030.
func movedHost(change func(*infrav1.IngotHost)) *infrav1.IngotHost {
	host := hostWith()
	host.Annotations = map[string]string{paused: moment(1000).UTC().Format(time.RFC3339)}
	host.CreationTimestamp = moment(1030)
	host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderClean}
	change(host)
	return host
}

func TestRests(t *testing.T) {
	inspected := &infrav1.HostRecord{InspectedTime: moment(1)}
	free := func(h *infrav1.IngotHost) { h.Spec.Order, h.Spec.Record = nil, inspected.DeepCopy() }
	claimed := func(state infrav1.ClaimState) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) {
			free(h)
			h.Spec.Claim = &infrav1.HostClaim{State: state}
		}
	}
	cycle := func(state infrav1.PowerCycleState) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) {
			claimed(infrav1.ClaimProvisioned)(h)
			h.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{State: state}
		}
	}
	inUse := &infrav1.HostClaim{State: infrav1.ClaimProvisioned}
	wishing := func(outcome infrav1.PreparationOutcome) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) {
			free(h)
			h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: map[string]string{"LogicalProc": "Disabled"}}
			h.Spec.Record.Preparation = &infrav1.HostPreparation{SettingsHash: lifecycle.DesiredDigest(h), Outcome: outcome}
		}
	}
	for name, tc := range map[string]struct {
		change func(*infrav1.IngotHost)
		want   bool
	}{
		"at work":                  {func(*infrav1.IngotHost) {}, true},
		"a move that was given up": {func(h *infrav1.IngotHost) { h.CreationTimestamp = moment(10) }, false},
		"paused by hand":           {func(h *infrav1.IngotHost) { h.Annotations[paused] = "" }, false},
		"free":                     {free, false},
		"installed":                {claimed(infrav1.ClaimProvisioned), false},
		"about to be power-cycled": {cycle(infrav1.PowerCycleOff), true},
		"off for a power cycle":    {cycle(infrav1.PowerCycleOn), true},
		"power-cycled":             {cycle(infrav1.PowerCycleDone), false},
		"about to be fenced":       {claimed(infrav1.ClaimReleasing), true},
		"about to be installed":    {claimed(infrav1.ClaimProvisioning), true},
		"unknown":                  {func(h *infrav1.IngotHost) { h.Spec.Order = nil }, true},
		"to be cleaned":            {func(h *infrav1.IngotHost) { free(h); h.Spec.Record.CleaningDue = infrav1.CleaningMetadata }, true},
		"not to be cleaned":        {func(h *infrav1.IngotHost) { free(h); h.Spec.Record.CleaningDue = infrav1.CleaningNone }, false},
		"to be prepared":           {wishing(""), true},
		"prepared":                 {wishing(infrav1.PreparationApplied), false},
		"given up":                 {wishing(infrav1.PreparationFailed), false},
		"its firmware is being updated": {func(h *infrav1.IngotHost) {
			free(h)
			h.Spec.Record.Preparation = &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{Component: "BIOS", Version: "2"}}
		}, true},
		"in use, with other settings": {func(h *infrav1.IngotHost) { wishing("")(h); h.Spec.Claim = inUse }, false},
		"in use, with settings for its next reboot": {func(h *infrav1.IngotHost) {
			wishing("")(h)
			h.Spec.Claim, h.Spec.BIOS.Apply = inUse, infrav1.BIOSAtNextReboot
		}, true},
		"its BMC is to have another password": {func(h *infrav1.IngotHost) {
			free(h)
			h.Annotations[infrav1.RotateCredentialsAnnotation] = "2026-01-02T03:04:05Z"
		}, true},
		"released by force, and perhaps on": {func(h *infrav1.IngotHost) {
			free(h)
			h.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineNotFenced}
		}, true},
		"quarantined, to be cleaned": {func(h *infrav1.IngotHost) {
			free(h)
			h.Spec.Record.CleaningDue = infrav1.CleaningMetadata
			h.Spec.Record.Quarantine = &infrav1.Quarantine{}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t)
			if got := y.remainingRest(movedHost(tc.change)); got != 0 {
				t.Errorf("rests for %s though no rest is asked for", got)
			}
			y.Rest = time.Minute
			if got := y.remainingRest(movedHost(tc.change)); got != 0 && got != time.Minute || (got != 0) != tc.want {
				t.Errorf("rests for %s, want any: %t", got, tc.want)
			}
		})
	}
}

// On the target, the pause of a busy host ends last, without an event. A new pause of all Clusters
// or a new manager starts the rest again.
func TestLiftAfterTheRest(t *testing.T) {
	running := clusterOf("a", nil)
	working := movedHost(func(h *infrav1.IngotHost) { h.Name = "working" })
	free := movedHost(func(h *infrav1.IngotHost) {
		h.Name, h.Spec.Order, h.Spec.Record = "free", nil, &infrav1.HostRecord{InspectedTime: moment(1)}
	})
	y := newFixture(t, &running, working, free)
	y.Rest = time.Minute
	for _, tc := range []struct {
		name  string
		at    int64
		do    func()
		after time.Duration
		want  map[string]int
	}{
		{"unpaused", 1060, func() {}, time.Minute, map[string]int{paused: 1, blocked: 1}},
		{"resting", 1080, func() {}, 40 * time.Second, map[string]int{paused: 1, blocked: 1}},
		{"a new manager", 1090, func() { y.arrivals = restStarts{} }, time.Minute, map[string]int{paused: 1, blocked: 1}},
		{"paused again", 1100, func() { y.pauseCluster("a", true) }, 0, map[string]int{paused: 2, blocked: 1}},
		{"unpaused again", 1110, func() { y.pauseCluster("a", false) }, time.Minute, map[string]int{paused: 1, blocked: 1}},
		{"rested", 1170, func() {}, 0, map[string]int{blocked: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			y.Clock = testclock.NewFakePassiveClock(moment(tc.at).Time)
			tc.do()
			if after := y.step().RequeueAfter; after != tc.after {
				t.Errorf("comes again after %s, want %s", after, tc.after)
			}
			if diff := cmp.Diff(tc.want, y.carries()); diff != "" {
				t.Errorf("hosts carry (-want +got):\n%s", diff)
			}
		})
	}
	if len(y.arrivals.since) != 0 {
		t.Errorf("remembered forever: %v", y.arrivals.since)
	}
}
