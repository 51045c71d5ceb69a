// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file decides what a manager may believe of its own state (I21). A backup that was
// restored, or a management cluster that was copied or asleep, says what was so some time
// ago. The server may run another tenant's system since.

// unconfirmed: everything that the ledger says is from before Observation.LedgerSince, and the
// server has not shown since that it is so. A host object that is younger was written to
// this API server by a person or by clusterctl move, and was not restored with it.
func (in *input) unconfirmed() bool {
	since := in.obs.LedgerSince
	if since.IsZero() || !before(in.host.CreationTimestamp.Time, since) {
		return false
	}
	for _, shown := range in.evidence() {
		if !before(shown, since) {
			return false
		}
	}
	return true
}

// before compares a time that an object holds, which has whole seconds.
func before(t, since time.Time) bool { return t.Before(since.Truncate(time.Second)) }

// evidence are the times at which the server last agreed with the ledger:
//   - Ingot switched the host, or heard the agent of its present order;
//   - the Node of the claim's instance reported;
//   - a step of the ledger was written that needs a look at the server. An order is written
//     of a host that is off, an install, an inspection or a cleaning is reported by the
//     agent, and the BMC confirms the fence.
//
// A claim is no evidence: a machine may claim a host by its restored status, before anybody
// has looked at its server. Nor is the state Releasing: a health check deletes machines whose
// restored state is too old.
func (in *input) evidence() []time.Time {
	shown := []time.Time{in.obs.LastReset, in.obs.LastContact, in.obs.NodeHeard}
	if order := in.order; order != nil {
		shown = append(shown, order.CreatedAt.Time)
	}
	if claim := in.claim; claim != nil {
		shown = append(shown, claim.ConfirmedTime.Time, claim.FencedAt.Time)
	}
	if record := in.record; record != nil {
		shown = append(shown, record.InspectedAt.Time, record.SanitizedAt.Time)
	}
	return shown
}

// dueToSwitch: the rules below would switch a host that is on. An order whose boot is
// forgotten is among them: its deadline would start again, as if the agent had spoken.
func (in *input) dueToSwitch() bool {
	switch {
	case in.ordered():
		return !in.provisioned() && (in.misfit() || in.ended() || in.contactForgotten() || in.silent())
	case in.provisioned():
		return in.wantedOff() || in.rebootAsked() || in.cycling()
	case in.claimed():
		return true
	case in.quarantined():
		return in.quarantinedNotFenced()
	default:
		return !in.maintenance() && (in.wantedOff() || in.expectedOn() && !in.idleHost())
	}
}

// installedByNode: the Node of the claim's instance has reported, so that its install is
// committed, and it is the ledger that does not know.
func (in *input) installedByNode() bool {
	return !in.obs.NodeHeard.IsZero() && !before(in.obs.NodeHeard, in.obs.LedgerSince)
}

// NodeMatters reports whether the caller has to look for the Node of the host's claim.
func NodeMatters(host *infrav1.IngotHost, obs Observation) bool {
	in := &input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order, obs: obs}
	return in.claimed() && in.on() && in.unconfirmed()
}

func confirmInstalled(in *input) Decision {
	ledger := in.ledger()
	claim := ledger.Claim
	claim.State, claim.ConfirmedTime = infrav1.ClaimProvisioned, metav1.Time{Time: in.obs.NodeHeard}
	claim.Attempt = max(claim.Attempt, 1) // its disks are cleaned at the release
	ledger.Order = nil
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonProvisioned,
		Message: fmt.Sprintf("The Node of IngotMachine %s runs on this server, so it is installed. Ingot's state was older than that and is corrected.", claim.MachineRef.Name)}
}

func sayUnconfirmed(*input) Decision {
	return warn(infrav1.ReasonStateUnconfirmed,
		"The server is on, and Ingot's state of it may be out of date. Ingot leaves it alone. Power it off if nobody uses it; else pause this host and see \"Backup and restore\".")
}
