// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
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

// IsUnconfirmed reports whether all that the persistent state of a host says is from before
// since, and its server has not shown since that it is so. The Node of its claim is not
// considered.
func IsUnconfirmed(host *infrav1.IngotHost, since time.Time) bool {
	in := &input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order, obs: Observation{
		LedgerSince: since, LastReset: host.Status.LastResetTime.Time, LastContact: LastContact(host),
	}}
	return in.unconfirmed()
}

// LastContact returns when the agent of the host's present order last spoke. Zero: it has
// not, or the status was lost.
func LastContact(host *infrav1.IngotHost) time.Time {
	operation, order := host.Status.Operation, host.Spec.Order
	if operation == nil || order == nil || operation.Kind != order.Kind || !operation.StartedAt.Equal(&order.CreatedAt) {
		return time.Time{}
	}
	return operation.LastContactTime.Time
}

// IsHeld reports whether Ingot leaves the server of the host alone, as the host's status
// shows: it was on when Ingot last looked, and its state is unconfirmed. A held server that
// restarts boots from its disk.
func IsHeld(host *infrav1.IngotHost) bool {
	ready := meta.FindStatusCondition(host.Status.Conditions, infrav1.ReadyCondition)
	return ready != nil && ready.Reason == infrav1.ReasonStateUnconfirmed && host.Status.Power != infrav1.PowerStateOff
}

// SystemInUse returns the instance whose complete system may be in use on a host whose state
// is unconfirmed, by the markers that an agent found. Empty: there is none. That is an
// instance that the host's persistent state does not know, or the claim's own if the order
// to install it was taken by another agent before, which restarted is true for: that agent
// may have ended its work. The system of an instance that was released is in use no more.
func SystemInUse(host *infrav1.IngotHost, markers []agentapi.Marker, restarted bool) string {
	claim, order := host.Spec.Claim, host.Spec.Order
	released := ReleasedInstances(host)
	for _, m := range markers {
		own := claim != nil && claim.InstanceID == m.InstanceID
		switch {
		case !m.Complete || slices.Contains(released, m.InstanceID):
		case !own:
			return m.InstanceID
		case restarted && order != nil && order.Kind == infrav1.OrderInstall && !slices.Contains(claim.RejectedAttempts, m.Attempt):
			return m.InstanceID
		}
	}
	return ""
}

// LeftInUse is the result of an order whose agent found the system of an instance that may be
// in use: the server boots from its disk from then on, and Ingot holds the host.
func LeftInUse(instance string, now time.Time) *infrav1.OrderResult {
	return &infrav1.OrderResult{
		Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonStateUnconfirmed, At: metav1.Time{Time: now},
		Message: fmt.Sprintf("The server restarted into the system of instance %s on its disk. Ingot leaves it alone. Power it off if nobody uses it; else pause this host.", instance),
	}
}

// foundInUse: the agent of the order found a system that may be in use.
func (in *input) foundInUse() bool {
	return in.order != nil && in.order.Result != nil && in.order.Result.Reason == infrav1.ReasonStateUnconfirmed
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

func sayUnconfirmed(in *input) Decision {
	if in.foundInUse() {
		return warn(infrav1.ReasonStateUnconfirmed, in.order.Result.Message)
	}
	return warn(infrav1.ReasonStateUnconfirmed,
		"The server is on, and Ingot's state of it may be out of date. Ingot leaves it alone. Power it off if it is not in use; else pause this host and see \"Backup and restore\".")
}
