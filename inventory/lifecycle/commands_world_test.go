// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// commandEvents are people who give commands too early, too late or in vain, and Machines
// that drain. Not in all walks: the others go where they went before.
func commandEvents() []event {
	note := func(name string, arguments ...string) func(*world) {
		return func(w *world) { w.command(name, arguments...) }
	}
	given := func(when func(*world) bool) func(*world) bool {
		return func(w *world) bool { return w.commands && when(w) }
	}
	claimed := func(w *world) bool { return w.claim() != nil }
	return []event{
		{name: "machine: drains", weight: 3, when: given(func(w *world) bool { return held(w.host) && w.machine && !w.draining }), do: func(w *world) { w.draining = true }},
		{name: "person: forces what is released", weight: 6, fault: true, when: given(func(w *world) bool {
			return claimed(w) && w.claim().State == infrav1.ClaimReleasing
		}), do: note(infrav1.ForceReleaseAnnotation)},
		{name: "person: forces early", weight: 2, fault: true, when: given(always), do: note(infrav1.ForceReleaseAnnotation)},
		{name: "person: releases what does not dangle", weight: 2, fault: true, when: given(always), do: note(infrav1.ReleaseAnnotation)},
		{name: "person: clears no quarantine", weight: 2, fault: true, when: given(always), do: note(infrav1.ClearQuarantineAnnotation)},
		{name: "repository: applies all commands again", weight: 8, when: given(always), do: func(w *world) {
			for name, value := range w.given {
				w.annotate(name, value)
			}
		}},
		{name: "person: gives a command of hours ago", weight: 3, fault: true, when: given(always), do: func(w *world) {
			w.annotate(w.anyCommand(), w.now.Add(-2*time.Hour).Format(time.RFC3339))
		}},
		{name: "person: gives a command of tomorrow", weight: 2, fault: true, when: given(always), do: func(w *world) {
			w.annotate(w.anyCommand(), w.now.Add(24*time.Hour).Format(time.RFC3339))
		}},
		{name: "person: gives a command without its time", weight: 2, fault: true, when: given(always), do: func(w *world) {
			w.annotate(w.anyCommand(), "")
		}},
		{name: "person: approves an instance", weight: 3, fault: true, when: given(always), do: note(infrav1.ApproveAnnotation, otherInstance)},
	}
}

// anyCommand names one command after the other.
func (w *world) anyCommand() string {
	names := slices.DeleteFunc(inventory.CommandNames(), func(name string) bool {
		return name == infrav1.RetryBMCAnnotation || name == infrav1.RotateCredentialsAnnotation
	})
	return names[w.ids%len(names)]
}

// command gives a command as people do: no two in the same second.
func (w *world) command(name string, arguments ...string) {
	if w.givenAt = w.givenAt.Add(time.Second); w.givenAt.Before(w.now) {
		w.givenAt = w.now
	}
	value := strings.Join(append([]string{w.givenAt.Format(time.RFC3339)}, arguments...), ",")
	if w.given == nil {
		w.given = map[string]string{}
	}
	w.given[name] = value
	w.annotate(name, value)
}

// carries holds a command that is carried out against those that were (I24), knowing what
// people gave and not what the host remembers.
func (w *world) carries(name string) {
	c, err := inventory.ParseCommand(name, w.host.Annotations[name])
	switch done := w.carried[name]; {
	case err != nil:
		w.violate("I24: %q is carried out, which is no command", w.host.Annotations[name])
	case !c.Time.After(done):
		w.violate("I24: the %s of %s is carried out after that of %s", name, c.Time, done)
	case w.now.Sub(c.Time) >= time.Hour, c.Time.Sub(w.now) > 5*time.Minute:
		w.violate("I24: the %s of %s is carried out at %s", name, c.Time, w.now)
	}
	if w.carried == nil {
		w.carried = map[string]time.Time{}
	}
	w.carried[name] = c.Time
}

// takeoverApproved: a person lets Ingot shut down what it found on.
func (w *world) takeoverApproved(host *infrav1.IngotHost) bool {
	return w.asked(host, infrav1.ApproveAnnotation) && !w.instancesApproved(host)
}

// instancesApproved: a person just approved that the disks of an instance are overwritten.
func (w *world) instancesApproved(host *infrav1.IngotHost) bool {
	return w.asked(host, infrav1.ApproveAnnotation) && strings.Contains(host.Annotations[infrav1.ApproveAnnotation], otherInstance)
}

// staleCommands restates, for the check, which commands nothing waits for.
func (w *world) staleCommands(host *infrav1.IngotHost, obs Observation) []string {
	c := host.Spec.Claim
	stays := obs.Machine == MachineExists
	var stale []string
	for _, name := range inventory.CommandNames() {
		c, pending := inventory.PendingCommand(host, name)
		if pending && (w.now.Sub(c.Time) >= time.Hour || c.Time.Sub(w.now) > 5*time.Minute) {
			stale = append(stale, name)
		}
	}
	add := func(name string, is bool) {
		if is && w.asked(host, name) {
			stale = append(stale, name)
		}
	}
	add(infrav1.ForceReleaseAnnotation, c == nil || !c.FencedTime.IsZero() || held(host) && stays && !obs.MachineDeleting)
	add(infrav1.ReleaseAnnotation, !held(host) || stays)
	add(infrav1.ClearQuarantineAnnotation, quarantine(host) == "" || quarantine(host) == infrav1.QuarantineNotFenced)
	return stale
}

// dropsCommands: the write takes idle commands away, and does nothing else.
func dropsCommands(host *infrav1.IngotHost, d Decision) bool {
	save, saves := d.Step.(SaveLedger)
	return d.KeepsConditions && d.RefusesCommands && onlyAnnotations(host, save, saves)
}

// checkCommands: what nobody means any more is taken away before anything else is done,
// and nothing else is.
func (w *world) checkCommands(host *infrav1.IngotHost, obs Observation, d Decision) {
	stale := w.staleCommands(host, obs)
	save, saves := d.Step.(SaveLedger)
	leaves := w.deleting && (host.Spec.Claim == nil || held(host) || w.asked(host, infrav1.ForceReleaseAnnotation))
	cutOff := saves && notesCutOff(host, save.Ledger)
	// What a person forces goes first; the others are taken away in the next pass, and no
	// machine claims the host before.
	forces := saves && host.Spec.Claim != nil && save.Ledger.Claim == nil &&
		slices.Contains(save.RemoveAnnotations, infrav1.ForceReleaseAnnotation)
	approves := saves && d.KeepsConditions && onlyAnnotations(host, save, saves) && slices.Equal(save.RemoveAnnotations, []string{infrav1.ApproveAnnotation}) && w.instancesApproved(host)
	if host == w.host && saves && !d.RefusesCommands {
		for _, name := range save.RemoveAnnotations {
			w.carries(name)
		}
	}
	switch drops := dropsCommands(host, d); {
	case approves:
		if !slices.Contains(ApprovedInstances(&infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Commands: save.Ledger.Commands}}), otherInstance) {
			w.violate("I8: the approval of an instance is lost")
		}
		return
	case d.KeepsConditions && !drops:
		w.violate("%s is told to be beside the host's life", d.Rule)
	case drops && !slices.Equal(save.RemoveAnnotations, stale):
		w.violate("commands %v are taken away, and %v lie in wait", save.RemoveAnnotations, stale)
	case !drops && len(stale) > 0 && !leaves && !cutOff && !forces:
		w.violate("I7: commands %v lie in wait while %s decides", stale, d.Rule)
	}
	before := ApprovedInstances(host)
	after := ApprovedInstances(&infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Commands: save.Ledger.Commands}})
	if saves && len(before) > 0 && len(after) == 0 {
		o := host.Spec.Order
		if o == nil || o.Kind != infrav1.OrderClean || o.Result == nil || o.Result.Outcome != infrav1.OrderSucceeded {
			w.violate("I8: %s takes the approval of an instance away that was not used", d.Rule)
		}
	}
}

// asked is w.asked for checks that know no time: the command is neither carried out nor
// refused yet.
func asked(host *infrav1.IngotHost, annotation string) bool {
	_, pending := inventory.PendingCommand(host, annotation)
	return pending
}
