// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// fakeContinuity counts the breaks.
type fakeContinuity struct {
	since  time.Time
	breaks int
}

func (f *fakeContinuity) Since() time.Time { return f.since }
func (f *fakeContinuity) Known() bool      { return true }
func (f *fakeContinuity) Break()           { f.breaks++ }

// fakeNodes tell one answer.
type fakeNodes struct {
	heard time.Time
	err   error
	asked int
}

func (f *fakeNodes) LastReport(context.Context, *infrav1.IngotHost) (time.Time, error) {
	f.asked++
	return f.heard, f.err
}

// A lower generation means that the API server was restored while the manager ran. A recreated host
// does not.
func TestNoticeRestore(t *testing.T) {
	watch := &fakeContinuity{}
	r := &Reconciler{Continuity: watch}
	for _, step := range []struct {
		uid        string
		generation int64
		breaks     int
	}{{"a", 5, 0}, {"a", 5, 0}, {"a", 7, 0}, {"a", 6, 1}, {"a", 6, 1}, {"a", 8, 1}, {"b", 1, 1}, {"b", 2, 1}, {"b", 1, 2}} {
		host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: types.UID(step.uid), Generation: step.generation}}
		r.noticeRestore(t.Context(), host)
		if watch.breaks != step.breaks {
			t.Errorf("%s at generation %d: %d breaks, want %d", step.uid, step.generation, watch.breaks, step.breaks)
		}
	}
}

// A Node is read only if it matters, and a failure to read it blocks nothing.
func TestObserveContinuity(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	nodes := &fakeNodes{heard: now}
	r := &Reconciler{Continuity: &fakeContinuity{since: now.Add(-time.Minute)}, Nodes: nodes}
	host := &infrav1.IngotHost{}
	host.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimReleasing}
	look := func(power infrav1.PowerState) lifecycle.Observation {
		seen := &observation{Observation: lifecycle.Observation{Power: power}}
		r.observeContinuity(t.Context(), host, seen)
		return seen.Observation
	}
	if obs := look(infrav1.PowerStateOn); !obs.NodeHeard.Equal(now) || !obs.LedgerSince.Equal(now.Add(-time.Minute)) {
		t.Errorf("node heard at %s, ledger since %s", obs.NodeHeard, obs.LedgerSince)
	}
	nodes.heard, nodes.err = time.Time{}, errors.New("cluster away")
	if obs := look(infrav1.PowerStateOn); !obs.NodeHeard.IsZero() || obs.LedgerSince.IsZero() {
		t.Errorf("node heard at %s, ledger since %s", obs.NodeHeard, obs.LedgerSince)
	}
	asked := nodes.asked
	if look(infrav1.PowerStateOff); nodes.asked != asked {
		t.Error("a Node is looked for of a server that is off")
	}
	host.Spec.Claim.ConfirmedTime = metav1.NewTime(now)
	if look(infrav1.PowerStateOn); nodes.asked != asked {
		t.Error("a Node is looked for of a claim that is confirmed")
	}
}

// testRestoredHostIsHeld (I21): a restored host is held while its server is on, and boot servers
// send it to its disk. Once it is off, Ingot continues, and boot servers offer the agent before the
// host is powered on.
func testRestoredHostIsHeld(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	watch := &fakeContinuity{}
	y.Continuity = watch
	y.ready("h")
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
	y.edit("h", func(h *infrav1.IngotHost) {
		h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: "0d5b5f0e-6d9e-4b6e-9d5c-3a0c6c1f0a01", Attempt: 1, CreationTime: metav1.NewTime(y.clock.Now())}
	})
	y.clock.Step(time.Hour)
	watch.since = y.clock.Now()
	held := y.until("h", "held", func(h *infrav1.IngotHost) bool {
		ready := conditions.Get(h, infrav1.ReadyCondition)
		return ready != nil && ready.Reason == infrav1.ReasonStateUnconfirmed
	})
	if !lifecycle.IsHeld(held) || y.bmc.took() != "" {
		t.Errorf("held: %t", lifecycle.IsHeld(held))
	}
	heldAtSwitch := true
	y.bmc.set(func(f *fakeBMC) {
		f.power, f.switching = bmc.PowerOff, func() { heldAtSwitch = lifecycle.IsHeld(y.get("h")) }
	})
	y.untilBoot("h", infrav1.OrderInspect)
	if heldAtSwitch {
		t.Error("boot servers send the server to its disk when it is switched on")
	}
}
