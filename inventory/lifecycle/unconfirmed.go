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

// This file decides whether the ledger may be out of date (I21): after a restore from a backup,
// or in a management cluster that was copied or suspended. The server may run another tenant's
// system since.

// unconfirmed reports whether the whole ledger is from before Observation.LedgerSince, without
// evidence since then that the server agrees. A younger host object was created by an operator
// or by clusterctl move, and was not restored.
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

// before compares a time of an object, which has whole seconds.
func before(t, since time.Time) bool { return t.Before(since.Truncate(time.Second)) }

// evidence returns the times at which the server last agreed with the ledger:
//   - Ingot changed the power, or heard the agent of the present order.
//   - The Node of the claim's instance reported.
//   - A change of the ledger that depends on the server: an order is written for a host that is
//     off, the agent reports the end of an order, and the BMC confirms a power-off.
//
// A claim is no evidence, because a machine may claim a host by its restored status. The state
// Releasing is none either, because a health check deletes machines with outdated state.
func (in *input) evidence() []time.Time {
	shown := []time.Time{in.obs.LastReset, in.obs.LastContact, in.obs.NodeHeard}
	if order := in.order; order != nil {
		shown = append(shown, order.CreationTime.Time)
	}
	if claim := in.claim; claim != nil {
		shown = append(shown, claim.ConfirmedTime.Time, claim.FencedTime.Time)
	}
	if record := in.record; record != nil {
		shown = append(shown, record.InspectedTime.Time, record.SanitizedTime.Time)
	}
	return shown
}

// dueToSwitch reports whether the rules below would power off a host that is on. It includes an
// order whose boot is forgotten, whose deadline would start again.
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

// installedByNode reports whether the Node of the claim's instance has reported. Its install is
// then committed, and the ledger is out of date.
func (in *input) installedByNode() bool {
	return !in.obs.NodeHeard.IsZero() && !before(in.obs.NodeHeard, in.obs.LedgerSince)
}

// NeedsNode reports whether the caller has to look for the Node of the host's claim.
func NeedsNode(host *infrav1.IngotHost, obs Observation) bool {
	in := inputOf(host)
	in.obs = obs
	return in.claimed() && in.on() && in.unconfirmed()
}

// IsUnconfirmed reports whether the whole ledger of a host is from before since, without
// evidence since then that the server agrees. It does not consider the Node of the claim.
func IsUnconfirmed(host *infrav1.IngotHost, since time.Time) bool {
	in := inputOf(host)
	in.obs = Observation{LedgerSince: since, LastReset: host.Status.LastResetTime.Time, LastContact: LastContact(host)}
	return in.unconfirmed()
}

// LastContact returns the last message of the agent of the host's present order. Zero: there
// was none, or the status was lost.
func LastContact(host *infrav1.IngotHost) time.Time {
	operation, order := host.Status.Operation, host.Spec.Order
	if operation == nil || order == nil || operation.Kind != order.Kind || !operation.StartTime.Equal(&order.CreationTime) {
		return time.Time{}
	}
	return operation.LastContactTime.Time
}

// IsHeld reports whether Ingot leaves the server alone because its state is unconfirmed and it
// was last seen on, by the status of the host. A held server that restarts boots from its disk.
func IsHeld(host *infrav1.IngotHost) bool {
	ready := meta.FindStatusCondition(host.Status.Conditions, infrav1.ReadyCondition)
	return ready != nil && ready.Reason == infrav1.ReasonStateUnconfirmed && host.Status.Power != infrav1.PowerStateOff
}

// SystemInUse returns the instance whose complete system may be in use on a host with
// unconfirmed state, by the markers that an agent found. Empty: none. It is an instance that
// the ledger does not have, or the claim's own if restarted: an earlier agent took the order
// and may have completed the install. Released instances do not count.
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

// LeftInUse returns the result of an order whose agent found a system that may be in use. The
// server then boots from its disk, and Ingot leaves it alone.
func LeftInUse(instance string, now time.Time) *infrav1.OrderResult {
	return &infrav1.OrderResult{
		Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonStateUnconfirmed, CompletionTime: metav1.Time{Time: now},
		Message: fmt.Sprintf("The server restarted into the system of instance %s on its disk. Ingot leaves it alone. Power it off if nobody uses it; else pause this host.", instance),
	}
}

// foundInUse reports whether the agent of the order found a system that may be in use.
func (in *input) foundInUse() bool {
	return in.order != nil && in.order.Result != nil && in.order.Result.Reason == infrav1.ReasonStateUnconfirmed
}

func confirmInstalled(in *input) Decision {
	ledger := in.ledger()
	claim := ledger.Claim
	claim.State, claim.ConfirmedTime = infrav1.ClaimProvisioned, metav1.Time{Time: in.obs.NodeHeard}
	claim.Attempt = max(claim.Attempt, 1) // so that the release cleans the disks
	ledger.Order = nil
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonProvisioned,
		Message: fmt.Sprintf("The Node of IngotMachine %s runs on this server, so it is installed. Ingot corrects its outdated state.", claim.MachineRef.Name)}
}

func sayUnconfirmed(in *input) Decision {
	if in.foundInUse() {
		return warn(infrav1.ReasonStateUnconfirmed, in.order.Result.Message)
	}
	return warn(infrav1.ReasonStateUnconfirmed,
		"The server is on, and Ingot's state of it may be out of date. Ingot leaves it alone. Power it off if it is not in use; else pause this host and see \"Backup and restore\".")
}
