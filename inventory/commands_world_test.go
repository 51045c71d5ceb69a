// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// commandEvents are people who give commands too early, too late or in vain, and Machines
// that drain. Not in all walks: the others go where they went before.
func commandEvents() []event {
	note := func(name, value string) func(*world) {
		return func(w *world) { w.annotate(name, value) }
	}
	given := func(when func(*world) bool) func(*world) bool {
		return func(w *world) bool { return w.commands && when(w) }
	}
	claimed := func(w *world) bool { return w.claim() != nil }
	return []event{
		{name: "machine: drains", weight: 3, when: given(func(w *world) bool { return held(w.host) && w.machine && !w.draining }), do: func(w *world) { w.draining = true }},
		{name: "person: forces what is released", weight: 6, fault: true, when: given(func(w *world) bool {
			return claimed(w) && w.claim().State == infrav1.ClaimReleasing
		}), do: note(infrav1.ForceReleaseAnnotation, "")},
		{name: "person: forces early", weight: 2, fault: true, when: given(always), do: note(infrav1.ForceReleaseAnnotation, "")},
		{name: "person: releases what does not dangle", weight: 2, fault: true, when: given(always), do: note(infrav1.ReleaseDanglingAnnotation, "")},
		{name: "person: clears no quarantine", weight: 2, fault: true, when: given(always), do: note(infrav1.ClearQuarantineAnnotation, "")},
		{name: "person: approves an instance", weight: 3, fault: true, when: given(always), do: note(infrav1.ApproveAnnotation, otherInstance)},
	}
}

// takeoverApproved: a person lets Ingot shut down what it found on.
func takeoverApproved(host *infrav1.IngotHost) bool {
	return asked(host, infrav1.ApproveAnnotation) && host.Annotations[infrav1.ApproveAnnotation] != otherInstance
}

// staleCommands restates, for the check, which commands nothing waits for.
func staleCommands(host *infrav1.IngotHost, obs Observation) []string {
	c := host.Spec.Claim
	stays := obs.Machine == MachineExists
	var stale []string
	add := func(name string, is bool) {
		if is && asked(host, name) {
			stale = append(stale, name)
		}
	}
	add(infrav1.ForceReleaseAnnotation, c == nil || !c.FencedAt.IsZero() || held(host) && stays && !obs.MachineDeleting)
	add(infrav1.ReleaseDanglingAnnotation, !held(host) || stays)
	add(infrav1.ClearQuarantineAnnotation, quarantine(host) == "" || quarantine(host) == infrav1.QuarantineNotFenced)
	return stale
}

// dropsCommands: the write takes idle commands away, and does nothing else.
func dropsCommands(host *infrav1.IngotHost, d Decision) bool {
	save, saves := d.Step.(SaveLedger)
	return d.Aside && onlyAnnotations(host, save, saves)
}

// checkCommands: what nobody means any more is taken away before anything else is done,
// and nothing else is.
func (w *world) checkCommands(host *infrav1.IngotHost, obs Observation, d Decision) {
	stale := staleCommands(host, obs)
	save, saves := d.Step.(SaveLedger)
	leaves := w.deleting && (host.Spec.Claim == nil || held(host) || asked(host, infrav1.ForceReleaseAnnotation))
	cutOff := saves && notesCutOff(host, save.Ledger)
	// What a person forces goes first; the others are taken away in the next pass, and no
	// machine claims the host before.
	forces := saves && host.Spec.Claim != nil && save.Ledger.Claim == nil &&
		slices.Contains(save.RemoveAnnotations, infrav1.ForceReleaseAnnotation)
	switch drops := dropsCommands(host, d); {
	case d.Aside && !drops:
		w.violate("%s is told to be beside the host's life", d.Rule)
	case drops && !slices.Equal(save.RemoveAnnotations, stale):
		w.violate("commands %v are taken away, and %v lie in wait", save.RemoveAnnotations, stale)
	case !drops && len(stale) > 0 && !leaves && !cutOff && !forces:
		w.violate("I7: commands %v lie in wait while %s decides", stale, d.Rule)
	}
	if saves && slices.Contains(save.RemoveAnnotations, infrav1.ApproveAnnotation) && !takeoverApproved(host) {
		o := host.Spec.Order
		if o == nil || o.Kind != infrav1.OrderWipe || o.Result == nil || o.Result.Outcome != infrav1.OrderSucceeded {
			w.violate("I8: %s takes the approval of an instance away that was not used", d.Rule)
		}
	}
}
