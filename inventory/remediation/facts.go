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

// The conditions of the rules. Each tests one fact.

// The defaults of the schema, for an object without them.
const (
	defaultRetryLimit      int32 = 2
	defaultTimeoutSeconds  int32 = 600
	defaultCooldownSeconds int32 = 3600
)

// input is everything that a decision depends on. Rules do not change it.
type input struct {
	spec     infrav1.IngotRemediationSpec
	created  time.Time
	deleting bool
	obs      Observation
	// claim of the host. Nil: none.
	claim *infrav1.HostClaim
}

func (in *input) isDeleting() bool { return in.deleting }

// The Machine.

func (in *input) machineMissing() bool  { return in.obs.Machine.Missing }
func (in *input) machineDeleting() bool { return in.obs.Machine.Deleting }
func (in *input) machineLives() bool {
	return !in.obs.Machine.Missing && !in.obs.Machine.Deleting
}
func (in *input) isDelegated() bool { return in.obs.Machine.Delegated }
func (in *input) askedFor() bool    { return in.obs.Machine.RemediationRequested }
func (in *input) foreign() bool     { return in.obs.Machine.Foreign != "" }

// worker reports whether the workload cluster's API does not depend on this Machine's Node.
func (in *input) worker() bool { return !in.obs.Machine.ControlPlane }

// leftAlone reports whether an annotation pauses the remediation. The MachineHealthCheck ignores
// such a Machine too, and would not end its remediation.
func (in *input) leftAlone() bool { return in.obs.Machine.PausedBy != "" }

// healthy reports whether the Machine became healthy after the creation of the remediation. The
// MachineHealthCheck creates the remediation first, and corrects an older condition after that.
func (in *input) healthy() bool {
	return !in.obs.Machine.HealthySince.IsZero() && !in.obs.Machine.HealthySince.Before(in.created)
}

// The host.

func (in *input) hostLost() bool { return in.obs.HostLost }

// inUse reports whether the machine's system is installed on the host.
func (in *input) inUse() bool {
	return in.claim != nil && in.claim.State == infrav1.ClaimProvisioned
}

// installing reports whether the machine's system is not installed yet.
func (in *input) installing() bool {
	return in.claim != nil && in.claim.State == infrav1.ClaimProvisioning
}
func (in *input) notHeld() bool   { return !in.inUse() && !in.installing() }
func (in *input) unmanaged() bool { return in.obs.Host.Spec.BMC == nil }
func (in *input) marked() bool    { return in.claim.Quarantine != nil }

// personAtWork reports whether an operator keeps the host off or in maintenance (I19).
func (in *input) personAtWork() bool {
	return in.obs.Host.Spec.Power == infrav1.PowerIntentOff || in.obs.Host.Spec.Maintenance != nil && *in.obs.Host.Spec.Maintenance
}

// hostPaused reports whether the host controller may not change the power.
func (in *input) hostPaused() bool { return lifecycle.HostPause(in.obs.Host) != "" }

// The Node.

func (in *input) unreachable() bool { return in.obs.Node.Unreachable }

// nodeAwaited reports whether a power cycle or an interruption passed, after which the Node may
// become healthy.
func (in *input) nodeAwaited() bool {
	return in.cycled() || in.interrupted() && in.notSeenOff()
}

// nodeBack reports whether the Node is healthy since the last power cycle, but the
// MachineHealthCheck has not noticed.
func (in *input) nodeBack() bool {
	node, before := in.obs.Node, in.claim.PowerCycle.BootID
	return node.Ready && !node.HasProblem && node.BootID != "" && before != "" && node.BootID != before
}

// The power cycle.

func (in *input) timeout() time.Duration {
	return time.Duration(cmp.Or(in.spec.TimeoutSeconds, defaultTimeoutSeconds)) * time.Second
}

// from returns the start of a deadline that would start at t, without the time of pauses,
// maintenance and moves.
func (in *input) from(t time.Time) time.Time {
	if in.interrupted() && in.obs.ActiveSince.After(t) {
		return in.obs.ActiveSince
	}
	return t
}

func (in *input) cycling() bool { return lifecycle.IsPowerCycling(in.claim) }

// cycleCutting reports whether a power cycle waits for the host to be off.
func (in *input) cycleCutting() bool {
	return in.claim.PowerCycle != nil && in.claim.PowerCycle.State == infrav1.PowerCycleOff
}

// claimOwed reports whether the end of the remediation must be written into the claim.
func (in *input) claimOwed() bool { return in.cycleCutting() || in.marked() && in.machineLives() }

// cycleDue is until when the power cycle may run. A power cycle of an earlier remediation gets
// the whole timeout of this one.
func (in *input) cycleDue() time.Time {
	asked := in.claim.PowerCycle.RequestTime.Time
	if asked.Before(in.created) {
		asked = in.created
	}
	return in.from(asked).Add(in.timeout())
}
func (in *input) cycleOverdue() bool { return !in.obs.Now.Before(in.cycleDue()) }

// untried reports whether the power cycle could not be tried: the BMC does not answer or rejects
// the credentials, or Ingot did not use it. That is no failure of the host. A BMC that answers
// but does not carry out power actions is one.
func (in *input) untried() bool {
	told := in.obs.Host.Status.Conditions
	reachable := meta.FindStatusCondition(told, infrav1.HostBMCReachableCondition)
	answers := reachable != nil && (reachable.Status == metav1.ConditionTrue || reachable.Reason == infrav1.ReasonPowerActionIgnored)
	return !answers || meta.IsStatusConditionFalse(told, infrav1.HostCredentialsValidCondition) || in.notToBeSwitched()
}

// notToBeSwitched reports whether the BMC may not be this server's.
func (in *input) notToBeSwitched() bool {
	ready := meta.FindStatusCondition(in.obs.Host.Status.Conditions, infrav1.ReadyCondition)
	return ready != nil && (ready.Reason == infrav1.ReasonDuplicate || ready.Reason == infrav1.ReasonWrongServer)
}

// cycled reports whether a power cycle counts.
func (in *input) cycled() bool { return in.count() > 0 }

// nodeDue is until when the Node may be unhealthy after the last power cycle.
func (in *input) nodeDue() time.Time {
	return in.from(in.claim.PowerCycle.CompletionTime.Time).Add(in.timeout())
}
func (in *input) nodeHasTime() bool { return in.obs.Now.Before(in.nodeDue()) }

// interrupted reports whether the remediation was paused after its creation, or the system was
// still being installed. The server may be repaired and booting since.
func (in *input) interrupted() bool { return in.obs.ActiveSince.After(in.created) }

// graceDue is until when a Node has time to become healthy after an interruption.
func (in *input) graceDue() time.Time { return in.obs.ActiveSince.Add(in.timeout()) }
func (in *input) graceLeft() bool     { return in.obs.Now.Before(in.graceDue()) }

// notSeenOff reports whether the BMC did not last report off.
func (in *input) notSeenOff() bool { return in.obs.Host.Status.Power != infrav1.PowerStateOff }

// count returns the number of power cycles that count. A remediation that was created after the
// cooldown starts at 0.
func (in *input) count() int32 {
	last := in.claim.PowerCycle
	if last == nil {
		return 0
	}
	cooldown := time.Duration(cmp.Or(in.spec.CooldownSeconds, defaultCooldownSeconds)) * time.Second
	if !in.created.Before(last.RequestTime.Add(cooldown)) {
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
