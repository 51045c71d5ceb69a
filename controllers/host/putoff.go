// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// putOff is an update that the BMC takes at another time, or whose image cannot be read
// for now. Nothing is counted against the host: it is tried again at growing intervals
// (I13), though the BMC is well otherwise, and though the ledger has changed meanwhile.
type putOff struct {
	// of names the BMC and the wishes: others are tried at once.
	of    string
	delay time.Duration
	until time.Time
	why   string
	// failed is how many attempts had failed when it was put off for the last of them.
	failed int32
}

func putOffOf(host *infrav1.IngotHost, seen *observation) string {
	return seen.target.Address + " " + inventory.WishesOf(host)
}

// putOffUpdate doubles the interval; least is what the BMC asks for.
func (r *Reconciler) putOffUpdate(host *infrav1.IngotHost, seen *observation, why string, least time.Duration) {
	of, w := putOffOf(host, seen), r.waits()
	last := seen.known.putOff
	if last.of != of {
		last = putOff{of: of}
	}
	last.delay, last.why = min(max(2*last.delay, w.BackoffFirst), w.BackoffCap), why+
		"; Ingot tries again at growing intervals of at most 5 minutes, and at once when spec.firmware changes"
	last.until = r.Clock.Now().Add(min(max(wait.Jitter(last.delay, backoffJitter), least), w.BackoffCap))
	seen.known.putOff = last
	r.contacts.keep(host, seen.known)
}

// spaceUpdates puts the attempt that follows a failed one off for some minutes: what is
// tried again at once, three times in a row, fails three times, and a host that is given
// up waits for a person.
func (r *Reconciler) spaceUpdates(host *infrav1.IngotHost, seen *observation, decision inventory.Decision) {
	if host.Spec.Record == nil || host.Spec.Record.Preparation == nil || !beginsUpdate(decision) {
		return
	}
	preparation, last := host.Spec.Record.Preparation, seen.known.putOff
	if preparation.Attempts == 0 || last.of == putOffOf(host, seen) && last.failed == preparation.Attempts {
		return
	}
	r.putOffUpdate(host, seen, preparation.Message, r.Policy.UpdateRead)
	seen.known.putOff.failed = preparation.Attempts
	r.contacts.keep(host, seen.known)
}

// awaitUpdate puts the update off until the end of a reading is heard, or a poll later.
func (r *Reconciler) awaitUpdate(host *infrav1.IngotHost, seen *observation, why string) {
	last := seen.known.putOff
	if of := putOffOf(host, seen); last.of != of {
		last = putOff{of: of}
	}
	last.until, last.why = r.Clock.Now().Add(r.Poll), why
	seen.known.putOff = last
	r.contacts.keep(host, seen.known)
}

// goOn ends the wait of a host.
func (c *contacts) goOn(host types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.m[host]; ok {
		known.putOff.until = time.Time{}
		c.m[host] = known
	}
}

// isPutOff says whether the update that a decision is about is not to be begun yet.
// Nor is the firmware read for it, which may be a hundred requests.
func isPutOff(host *infrav1.IngotHost, seen *observation, decision inventory.Decision) bool {
	return beginsUpdate(decision) && seen.known.putOff.of == putOffOf(host, seen) && seen.Now.Before(seen.known.putOff.until)
}

func beginsUpdate(decision inventory.Decision) bool {
	_, starts := decision.Step.(inventory.StartUpdate)
	return starts || decision.Rule == inventory.RuleLookBeforeUpdate
}

// putOffDecision tells people.
func putOffDecision(seen *observation, decision inventory.Decision) inventory.Decision {
	decision.Step, decision.Event, decision.Reason = inventory.Wait{Until: seen.known.putOff.until}, corev1.EventTypeWarning, infrav1.ReasonPreparing
	decision.Message = "an update of firmware is put off: " + seen.known.putOff.why
	return decision
}
