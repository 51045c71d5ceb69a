// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// The conditions of the rules of a remediation: one fact each.

// The defaults of the schema, for an object that did not pass it.
const (
	defaultRetryLimit      int32 = 2
	defaultTimeoutSeconds  int32 = 600
	defaultCooldownSeconds int32 = 3600
)

// input is all that the decision depends on. Nothing in it is ever changed.
type input struct {
	spec     infrav1.IngotRemediationSpec
	created  time.Time
	deleting bool
	obs      Observation
	// claim of the host; nil: there is none.
	claim *infrav1.HostClaim
}

func (in *input) isDeleting() bool { return in.deleting }

// The Machine.

func (in *input) machineMissing() bool  { return in.obs.Machine.Missing }
func (in *input) machineDeleting() bool { return in.obs.Machine.Deleting }
func (in *input) machineLives() bool {
	return !in.obs.Machine.Missing && !in.obs.Machine.Deleting
}
func (in *input) handedOver() bool { return in.obs.Machine.HandedOver }
func (in *input) askedFor() bool   { return in.obs.Machine.Marked }
func (in *input) foreign() bool    { return in.obs.Machine.Foreign != "" }

// worker: the workload cluster answers whether this Machine's Node lives or not.
func (in *input) worker() bool { return !in.obs.Machine.ControlPlane }

// leftAlone: MachineHealthCheck does not look at such a Machine, so that it would not end
// the remediation of one that is healthy.
func (in *input) leftAlone() bool { return in.obs.Machine.LeftAlone != "" }

// healthy: found so since the remediation was made. MachineHealthCheck makes it first,
// and corrects what the Machine says of itself from before in a second write.
func (in *input) healthy() bool {
	return !in.obs.Machine.HealthySince.IsZero() && !in.obs.Machine.HealthySince.Before(in.created)
}

// The host.

func (in *input) hostLost() bool { return in.obs.HostLost }

// inUse: the machine's system is installed on the host, so that there is something to
// restart.
func (in *input) inUse() bool {
	return in.claim != nil && in.claim.State == infrav1.ClaimProvisioned
}

// installing: the host is claimed, and the machine's system is not on it yet.
func (in *input) installing() bool {
	return in.claim != nil && in.claim.State == infrav1.ClaimProvisioning
}
func (in *input) notHeld() bool   { return !in.inUse() && !in.installing() }
func (in *input) unmanaged() bool { return in.obs.Host.Spec.BMC == nil }
func (in *input) marked() bool    { return in.claim.Quarantine != nil }

// personAtWork: a person keeps the host off, or works on it (I19).
func (in *input) personAtWork() bool {
	return in.obs.Host.Spec.Power == infrav1.PowerIntentOff || in.obs.Host.Spec.Maintenance != nil && *in.obs.Host.Spec.Maintenance
}

// hostPaused: its controller does not switch it, and that is not its BMC's fault.
func (in *input) hostPaused() bool { return lifecycle.HostPause(in.obs.Host) != "" }

// The Node.

func (in *input) unreachable() bool { return in.obs.Node.Unreachable }

// nodeAwaited: something was begun, or interrupted, and the Node may show that it is well.
func (in *input) nodeAwaited() bool {
	return in.cycled() || in.interrupted() && in.notSeenOff()
}

// nodeBack: the Node was restarted by the last power cycle, and is well, as far as a Node
// says; only MachineHealthCheck did not say so.
func (in *input) nodeBack() bool {
	node, before := in.obs.Node, in.claim.PowerCycle.BootID
	return node.Ready && !node.Ill && node.BootID != "" && before != "" && node.BootID != before
}

// The power cycle.

func (in *input) timeout() time.Duration {
	return time.Duration(cmp.Or(in.spec.TimeoutSeconds, defaultTimeoutSeconds)) * time.Second
}

// from is when a deadline begins that began at t: nobody acts during a pause, or while a
// person works on the host, and a move takes its time.
func (in *input) from(t time.Time) time.Time {
	if in.interrupted() && in.obs.ActiveSince.After(t) {
		return in.obs.ActiveSince
	}
	return t
}

func (in *input) cycling() bool { return lifecycle.CycleUnderWay(in.claim) }

// cycleCutting: the host is not known to be off yet for a power cycle.
func (in *input) cycleCutting() bool {
	return in.claim.PowerCycle != nil && in.claim.PowerCycle.State == infrav1.PowerCycleOff
}

// claimOwed: the end of the remediation has to be written into the claim.
func (in *input) claimOwed() bool { return in.cycleCutting() || in.marked() && in.machineLives() }

// cycleDue is until when the power cycle may be under way. One of an earlier remediation,
// which has ended while the BMC was dead, is given the whole time of this one.
func (in *input) cycleDue() time.Time {
	asked := in.claim.PowerCycle.AskedAt.Time
	if asked.Before(in.created) {
		asked = in.created
	}
	return in.from(asked).Add(in.timeout())
}
func (in *input) cycleOverdue() bool { return !in.obs.Now.Before(in.cycleDue()) }

// untried: nobody knows whether the host could be switched, since its BMC does not answer,
// or not to Ingot, or Ingot would not have it switched. That is no failure of the host
// (decision 0196); that a BMC answers, and what it is ordered does not come to pass, is.
func (in *input) untried() bool {
	told := in.obs.Host.Status.Conditions
	reachable := meta.FindStatusCondition(told, infrav1.HostBMCReachableCondition)
	answers := reachable != nil && (reachable.Status == metav1.ConditionTrue || reachable.Reason == infrav1.ReasonBMCDisobeys)
	return !answers || meta.IsStatusConditionFalse(told, infrav1.HostCredentialsValidCondition) || in.notToBeSwitched()
}

// notToBeSwitched: Ingot does not know that the BMC is this server's.
func (in *input) notToBeSwitched() bool {
	ready := meta.FindStatusCondition(in.obs.Host.Status.Conditions, infrav1.ReadyCondition)
	return ready != nil && (ready.Reason == infrav1.ReasonDuplicate || ready.Reason == infrav1.ReasonWrongServer)
}

// cycled: a power cycle is done that counts.
func (in *input) cycled() bool { return in.count() > 0 }

// nodeDue is until when the Node may be unhealthy after the last power cycle.
func (in *input) nodeDue() time.Time {
	return in.from(in.claim.PowerCycle.DoneAt.Time).Add(in.timeout())
}
func (in *input) nodeHasTime() bool { return in.obs.Now.Before(in.nodeDue()) }

// interrupted: nobody acted on the remediation for a while after it was made, or the system
// was still being installed. What MachineHealthCheck saw then may be over: the server may be
// repaired, and booting.
func (in *input) interrupted() bool { return in.obs.ActiveSince.After(in.created) }

// graceDue is until when a Node has time after such a while that no power cycle gave time.
func (in *input) graceDue() time.Time { return in.obs.ActiveSince.Add(in.timeout()) }
func (in *input) graceLeft() bool     { return in.obs.Now.Before(in.graceDue()) }

// notSeenOff: the BMC did not say off when it was read last. On a host that is off
// nothing boots.
func (in *input) notSeenOff() bool { return in.obs.Host.Status.Power != infrav1.PowerStateOff }

// count of the power cycles that count: those of a remediation that was made after the
// cooldown are forgotten.
func (in *input) count() int32 {
	last := in.claim.PowerCycle
	if last == nil {
		return 0
	}
	cooldown := time.Duration(cmp.Or(in.spec.CooldownSeconds, defaultCooldownSeconds)) * time.Second
	if !in.created.Before(last.AskedAt.Add(cooldown)) {
		return 0
	}
	return last.Count
}

func (in *input) limit() int32 {
	if in.spec.RetryLimit == nil {
		return defaultRetryLimit
	}
	return *in.spec.RetryLimit
}

func (in *input) cyclesLeft() bool { return in.count() < in.limit() }
func (in *input) noneWanted() bool { return in.limit() == 0 }
