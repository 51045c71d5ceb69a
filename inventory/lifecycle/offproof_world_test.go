// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is BMCs that say off of servers that are on, in the world of the walks.

func blindEvents() []event {
	return []event{
		{name: "BMC says off of a running server", weight: 12, fault: true, when: func(w *world) bool {
			// The proof is wanted before the fence; who is switched on behind a blind BMC after it is seen by nobody.
			c := w.claim()
			inUse := c != nil && c.State != infrav1.ClaimProvisioning && c.FencedTime.IsZero() || quarantine(w.host) == infrav1.QuarantineNotFenced
			return w.blinds && inUse && w.power && !w.blind && w.order() == nil && w.softOffAt.IsZero() && !w.isProved()
		}, do: func(w *world) { w.blind, w.lag = true, "" }},
		{name: "BMC sees the server again", weight: 1, when: func(w *world) bool { return w.blind }, do: func(w *world) { w.blind = false }},
	}
}

// prove is what the manager keeps, and what is true: the host was seen on since it is to be
// off.
func (w *world) prove(host *infrav1.IngotHost, obs *Observation) {
	w.proof = w.proof.Seen(host, obs.Power)
	obs.OffProven, obs.SeenOn = w.proof.Holds(host), w.proof.SeenOn(host)
	if obs.Power == infrav1.PowerStateOn {
		w.proved = offPurpose(w.host)
	}
}

func (w *world) isProved() bool { return w.proved != "" && w.proved == offPurpose(w.host) }

// believed: the manager need not order the host off that the BMC says is off.
func (w *world) believed(host *infrav1.IngotHost, obs Observation) bool {
	return w.proof.Holds(host) || !obs.SoftOffAt.IsZero()
}

// late: no power is cut any more for this cycle.
func (w *world) late(cycle *infrav1.ClaimPowerCycle) bool {
	return lapsed(w.now, cycle) || w.interrupted(cycle)
}

// checkProof: no BMC's word alone is enough for what cannot be taken back.
func (w *world) checkProof(obs Observation, next Ledger) {
	host := w.host.DeepCopy()
	host.Spec.Claim, host.Spec.Record = next.Claim, next.Record
	c := next.Claim
	fenced := w.claim() != nil && c != nil && w.claim().FencedTime.IsZero() && !c.FencedTime.IsZero()
	cycled := cycleIs(w.host, infrav1.PowerCycleOff) && cycleIs(host, infrav1.PowerCycleOn) && c.PowerCycle.ConfirmedOff != nil &&
		!w.late(c.PowerCycle)
	lifted := quarantine(w.host) == infrav1.QuarantineNotFenced && quarantine(host) == ""
	if (fenced || cycled || lifted) && !w.isProved() && obs.SoftOffAt.IsZero() {
		w.violate("I7: off is believed by the BMC's word alone")
	}
}
