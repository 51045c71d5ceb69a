// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is the remediation of machines in the world of the walks.

func remedyEvents() []event {
	inUse := func(w *world) bool { return w.claim() != nil && w.claim().State == infrav1.ClaimProvisioned }
	return []event{
		{name: "remediation: asks for a power cycle", weight: 3, fault: true, when: inUse, do: (*world).askCycle},
		{name: "remediation: asks again while the host comes on", weight: 6, fault: true, when: func(w *world) bool {
			return inUse(w) && w.power && w.now.Before(w.lagEnd) && w.lag == infrav1.PowerStateOff
		}, do: (*world).askCycle},
		{name: "person: works on it during a power cycle", weight: 3, fault: true, when: func(w *world) bool { return inUse(w) && IsPowerCycling(w.claim()) }, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) { h.Spec.Maintenance = new(true) })
		}},
		{name: "remediation: asks, and a day passes", weight: 3, fault: true, when: inUse, do: func(w *world) {
			w.askCycle()
			w.now = w.now.Add(cycleLapses + time.Minute)
		}},
		{name: "remediation: asks, and the manager restarts", weight: 6, fault: true, when: func(w *world) bool { return w.interrupts && inUse(w) }, do: func(w *world) {
			w.askCycle()
			w.now = w.now.Add(time.Minute)
			w.managerEnds()
		}},
		{name: "remediation: asks, and the manager restarts while the host goes off", weight: 6, fault: true, when: func(w *world) bool { return w.interrupts && inUse(w) }, do: func(w *world) {
			w.askCycle()
			w.now = w.now.Add(time.Minute)
			w.reconcile(w.host, false)
			w.managerEnds()
		}},
		{name: "remediation: ends while the host goes off", weight: 6, when: func(w *world) bool {
			return cycleIs(w.host, infrav1.PowerCycleOff) && !w.power && w.now.Before(w.lagEnd) && w.lag == infrav1.PowerStateOn
		}, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) { h.Spec.Claim.PowerCycle.State = infrav1.PowerCycleOn })
		}},
		{name: "remediation: ends", weight: 1, when: func(w *world) bool { return inUse(w) && IsPowerCycling(w.claim()) }, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) { h.Spec.Claim.PowerCycle.State = infrav1.PowerCycleOn })
		}},
		{name: "remediation: hands over", weight: 1, fault: true, when: inUse, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) {
				h.Spec.Claim.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed, Message: "unhealthy", StartTime: metav1.Time{Time: w.now}}
			})
		}},
	}
}

func (w *world) askCycle() {
	w.write(func(h *infrav1.IngotHost) {
		count := int32(1)
		if was := h.Spec.Claim.PowerCycle; was != nil {
			count += was.Count
		}
		h.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: count, State: infrav1.PowerCycleOff, RequestTime: metav1.Time{Time: w.now}}
	})
}

// cycleIs says whether the host is provisioned, and a power cycle of it in the state.
func cycleIs(host *infrav1.IngotHost, state infrav1.PowerCycleState) bool {
	c := host.Spec.Claim
	return c != nil && c.State == infrav1.ClaimProvisioned && c.PowerCycle != nil && c.PowerCycle.State == state
}

// lapsed: the power cycle was asked for longer ago than anybody waits for it.
func lapsed(now time.Time, cycle *infrav1.ClaimPowerCycle) bool {
	return now.After(cycle.RequestTime.Add(24 * time.Hour))
}

// interrupted: nobody acted on the host for a while since the power cycle was asked for.
func (w *world) interrupted(cycle *infrav1.ClaimPowerCycle) bool {
	return cycle.RequestTime.Time.Before(w.since)
}

// undone says whether the wish for a power cycle is taken back, as if it had not been asked
// for; the host must be on, and have been all the time.
func (w *world) undone(obs Observation, was, is *infrav1.ClaimPowerCycle) bool {
	count := int32(0)
	if is != nil {
		count = is.Count
	}
	ended := was.State == infrav1.PowerCycleOn && was.ConfirmedOff == nil // by its remediation, or by time
	return (ended || was.State == infrav1.PowerCycleOff && w.interrupted(was)) &&
		count == was.Count-1 && (is == nil || is.State == infrav1.PowerCycleDone) && obs.Power == infrav1.PowerStateOn && w.power
}

// worksOn: a person works on the server, claimed or not.
func worksOn(host *infrav1.IngotHost) bool {
	return host.Spec.Maintenance != nil && *host.Spec.Maintenance
}

// checkCycle: the ledger goes on only after what the BMC said, and that was true.
func (w *world) checkCycle(obs Observation, before, next Ledger) {
	if before.Claim == nil || next.Claim == nil || before.Claim.PowerCycle == nil {
		return
	}
	was, is := before.Claim.PowerCycle, next.Claim.PowerCycle
	switch {
	case w.undone(obs, was, is):
	case is == nil, is.Count != was.Count, is.BootID != was.BootID, !is.RequestTime.Equal(&was.RequestTime):
		w.violate("I3: the host's controller changes what a remediation asked for")
	case is.State == was.State:
	case was.State == infrav1.PowerCycleOff && is.State == infrav1.PowerCycleOn && is.ConfirmedOff == nil && obs.Power == infrav1.PowerStateOn && lapsed(w.now, was):
	case was.State == infrav1.PowerCycleOff && is.State == infrav1.PowerCycleOn && (!w.power || w.blind && w.late(was)) && is.ConfirmedOff != nil && *is.ConfirmedOff:
	case was.State == infrav1.PowerCycleOn && is.State == infrav1.PowerCycleDone && w.power && !is.CompletionTime.IsZero():
	default:
		w.violate("a power cycle goes from %s to %s, power %v", was.State, is.State, w.power)
	}
}

// checkKept: what a claim puts the host out of service for outlasts the claim.
func (w *world) checkKept(before, next Ledger) {
	if before.Claim != nil && before.Claim.Quarantine != nil && next.Claim == nil && (next.Record == nil || next.Record.Quarantine == nil) {
		w.violate("a host is free whose machine was handed over since nothing helped")
	}
	w.checkRefusals(before, next)
}
