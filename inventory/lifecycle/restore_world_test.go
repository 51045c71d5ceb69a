// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is backups in the world of the walks (I21): the management cluster's state is
// saved, the server goes on, and the state is restored. It is also managers that are away
// for so long that it is not known what happened meanwhile.

// snapshot is what a backup of the management cluster holds of one host.
type snapshot struct {
	host                              *infrav1.IngotHost
	lastReset, softOffAt, lastContact time.Time
	machine, draining, addressed      bool
}

func restoreEvents() []event {
	known := func(w *world) bool { return w.restores && (w.order() != nil || w.host.Spec.Record != nil) }
	return []event{
		{name: "backup: saved", weight: 3, when: known, do: (*world).save},
		{name: "backup: restored", weight: 2, fault: true, when: func(w *world) bool {
			return w.saved != nil && w.host.Generation > w.saved.host.Generation
		}, do: (*world).restore},
		{name: "backup: of an install that ends before it is restored", weight: 4, fault: true, when: func(w *world) bool {
			return w.restores && agentWorks(w) && w.order().Kind == infrav1.OrderInstall && w.orderFits(w.host) && w.order().LiveStartTime.IsZero() && w.claim().Live == nil
		}, do: func(w *world) { w.installsAfterBackup(w.ids % 3) }},
		{name: "backup: of a release, restored when the next tenant runs", weight: 4, fault: true, when: func(w *world) bool {
			return w.restores && w.claim() != nil && !held(w.host) && w.claim().FencedTime.IsZero() && w.power && w.running == "os"
		}, do: (*world).nextTenantAfterBackup},
		{name: "managers: away for long during a release, and the Node reports", weight: 3, fault: true, when: func(w *world) bool {
			return w.restores && w.claim() != nil && !held(w.host) && w.claim().FencedTime.IsZero() && w.tenant() == w.claim().InstanceID
		}, do: func(w *world) {
			w.unwatched()
			w.node, w.nodeAt = w.tenant(), w.now
		}},
		{name: "managers: away for long", weight: 1, fault: true, when: known, do: (*world).unwatched},
		{name: "node: reports", weight: 4, when: func(w *world) bool { return w.restores && w.tenant() != "" }, do: func(w *world) {
			w.node, w.nodeAt = w.tenant(), w.now
		}},
	}
}

func (w *world) save() {
	w.saved = &snapshot{host: w.host.DeepCopy(), lastReset: w.lastReset, softOffAt: w.softOffAt, lastContact: w.lastContact,
		machine: w.machine, draining: w.draining, addressed: w.addressed}
}

// restore puts the state back, and leaves the server as it is. From here on the walk holds
// decisions against checkRestored alone: the ledger is wrong, and no rule can know how.
func (w *world) restore() {
	if w.running == "os" && w.claim() != nil && w.claim().State == infrav1.ClaimProvisioned {
		w.user = w.claim().InstanceID
	}
	w.restored = true
	w.host = w.saved.host.DeepCopy()
	w.previous = w.host
	w.lastReset, w.softOffAt, w.lastContact = w.saved.lastReset, w.saved.softOffAt, w.saved.lastContact
	w.machine, w.draining, w.addressed = w.saved.machine, w.saved.draining, w.saved.addressed
	w.deleting, w.saved = false, nil
	if w.running == "agent" { // it answers to an order that this state may not know
		w.running, w.started = "unknown", false
	}
	w.unwatched()
}

// installsAfterBackup: the install is committed after the backup, and what the manager then
// finds is the system, its Node too, or a person's wish to delete the host.
func (w *world) installsAfterBackup(more int) {
	w.save()
	w.agentStep(infrav1.OrderSucceeded)
	w.restore()
	switch more {
	case 1:
		w.node, w.nodeAt = w.tenant(), w.now
	case 2: // the claim is given back, which leaves a host that is free by its ledger
		w.deleting = true
		w.write(func(h *infrav1.IngotHost) { h.Spec.Claim, h.Spec.Order.Kind = nil, infrav1.OrderInspect })
	}
}

// nextTenantAfterBackup: the host is cleaned and installed for another machine.
func (w *world) nextTenantAfterBackup() {
	w.save()
	w.disk = "next-tenant"
	w.restore()
	w.user = w.disk
}

// unwatched: no manager was there for a while.
func (w *world) unwatched() {
	w.managerEnds()
	w.now = w.now.Add(time.Hour)
	w.watched = w.now
	w.now = w.now.Add(time.Minute)
}

// tenant is the instance whose system runs on the server, as its Node reports it.
func (w *world) tenant() string {
	if w.running != "os" || !w.power || w.disk == "old" {
		return ""
	}
	return w.disk
}

// nodeHeard is what a manager sees of the Node of the claim's instance.
func (w *world) nodeHeard(host *infrav1.IngotHost) time.Time {
	if c := host.Spec.Claim; c != nil && c.InstanceID == w.node && w.tenant() == w.node {
		return w.nodeAt
	}
	return time.Time{}
}

// checkRestored (I21): a server that its tenant uses is not switched by a manager whose
// state may be old, unless that tenant's Node has reported and the claim is its own.
func (w *world) checkRestored(host *infrav1.IngotHost, d Decision) {
	inUse := w.user != "" && w.tenant() == w.user
	if _, sparing := d.Step.(PowerOn); !inUse || sparing || !isSwitch(d.Step) {
		return
	}
	if c := host.Spec.Claim; c == nil || c.InstanceID != w.user || c.State == infrav1.ClaimProvisioning || w.nodeHeard(host).Before(w.watched) {
		w.violate("I21: %s switches the server that %s uses, by a state that was restored (%T)", d.Rule, w.user, d.Step)
	}
}

func isSwitch(step Step) bool {
	switch step.(type) {
	case PowerOff, PowerOn, Restart, BootAgent:
		return true
	}
	return false
}

// mayHold: at rest, a person is asked about a server that is on, and only about such.
func (w *world) mayHold() bool {
	return w.last.Reason == infrav1.ReasonStateUnconfirmed && w.power && !w.watched.IsZero() && !w.touched()
}

// touched: the server agreed with the ledger since the managers' watch began.
func (w *world) touched() bool {
	return !w.lastReset.Before(w.watched) || !w.lastContact.Before(w.watched)
}

// nothingAsked: the host is provisioned, and no user asked for a change of its power.
func nothingAsked(host *infrav1.IngotHost) bool {
	c := host.Spec.Claim
	return c != nil && c.State == infrav1.ClaimProvisioned && host.Spec.Power == "" && !asked(host, infrav1.RebootAnnotation) && !IsPowerCycling(c)
}

// restRestored: after a restore the host comes to rest, whatever the ledger says, and a
// server in use that is held has a condition.
func (w *world) restRestored() string {
	if w.user == "" || w.tenant() != w.user {
		return ""
	}
	c := w.claim()
	if w.last.Reason == infrav1.ReasonAvailable {
		return "I21: a server in use is Available after a restore"
	}
	if c != nil && c.State == infrav1.ClaimProvisioning && c.InstanceID == w.user && !w.nodeHeard(w.host).Before(w.watched) && w.machine && w.last.Reason != infrav1.ReasonDuplicate {
		return "liveness: the Node of an instance reports, and its install is not known: " + w.last.Rule
	}
	if w.last.Reason == infrav1.ReasonStateUnconfirmed && nothingAsked(w.host) {
		return "liveness: a host is held to which nothing is due"
	}
	return ""
}
