// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/rules"
)

// ruleTable is a table of rules about a host; when shortens the tables.
type (
	ruleTable = rules.Table[*input, Decision]
	when      = []func(*input) bool
)

// input is everything that a decision depends on. Rules do not change it.
type input struct {
	host   *infrav1.IngotHost
	claim  *infrav1.HostClaim
	record *infrav1.HostRecord
	order  *infrav1.HostOrder
	obs    Observation
	policy Policy
}

// Next decides the next step for a host. It is deterministic, changes nothing, and uses no
// clock but obs.Now. A caller may repeat it after a crash or with all status lost (I2, I3).
func Next(host *infrav1.IngotHost, obs Observation, policy Policy) Decision {
	return nextBy(append(enrolledRules(), hostRules()...), host, obs, policy)
}

func nextBy(l ruleTable, host *infrav1.IngotHost, obs Observation, policy Policy) Decision {
	in := inputOf(host)
	in.obs, in.policy = obs, policy
	decision, by, decided := l.Decide(in)
	if !decided {
		decision = Decision{Step: Idle{}, Reason: infrav1.ReasonUnknown, Message: "No rule applies to this host, which is a defect of Ingot. Ingot does nothing to the host."}
	}
	decision.Rule = by
	decision.Phase = in.phase()
	if note := in.withoutEffect(decision); note != "" {
		decision.Message = inventory.WithDetail("", decision.Message, "."+note)
	}
	return decision
}

// PhaseOf returns the phase of a host by its ledger alone, as for a paused host.
func PhaseOf(host *infrav1.IngotHost) infrav1.IngotHostPhase {
	return inputOf(host).phase()
}

// phase sums up the ledger. Errors are conditions, not phases.
func (in *input) phase() infrav1.IngotHostPhase {
	switch {
	case in.unmanaged():
		return infrav1.PhaseUnmanaged
	case in.provisioning():
		return infrav1.PhaseProvisioning
	case in.provisioned():
		return infrav1.PhaseProvisioned
	case in.releasing():
		return infrav1.PhaseDeprovisioning
	case in.quarantined():
		return infrav1.PhaseQuarantined
	case in.maintenance():
		return infrav1.PhaseMaintenance
	case in.cleaningDue():
		return infrav1.PhaseDeprovisioning
	case in.inspected() && in.notPrepared():
		return infrav1.PhasePreparing
	case in.order != nil:
		return infrav1.PhaseInspecting
	case in.inspected() && !in.factsMissing():
		return infrav1.PhaseAvailable
	default:
		return infrav1.PhaseRegistering
	}
}

// retryAt is when to retry. Without a time of the caller it is one reset interval from now.
func (in *input) retryAt() time.Time {
	if in.obs.RetryAt.After(in.obs.Now) {
		return in.obs.RetryAt
	}
	return in.obs.Now.Add(in.policy.ResetInterval)
}

// switchableAt is when the next power action is allowed.
func (in *input) switchableAt() time.Time {
	return in.obs.LastReset.Add(in.policy.ResetInterval)
}

// imageRetryAt is when Ingot retries a failed image: after the reset interval, doubled with
// each attempt up to Policy.RetryMax (I13).
func (in *input) imageRetryAt() time.Time {
	wait := in.policy.ResetInterval << min(in.order.Attempt-1, 16)
	return in.order.Result.CompletionTime.Add(min(wait, in.policy.RetryMax))
}

// cutAt is when Ingot cuts the power of a host that is shutting down.
func (in *input) cutAt() time.Time { return in.obs.SoftOffAt.Add(in.policy.SoftPowerOff) }

// lookForOffAt is when to read the power state of a host that is shutting down. The poll is
// fast because the next step, also of its cluster, waits for power-off.
func (in *input) lookForOffAt() time.Time {
	next := in.obs.Now.Add(in.policy.ShutdownPoll)
	if cut := in.cutAt(); cut.Before(next) {
		return cut
	}
	return next
}

// silentAt is when Ingot stops waiting for an agent that stays silent. After a restart of the
// manager the agent gets extra time, because it retries with backoff.
func (in *input) silentAt() time.Time {
	last := in.obs.LastReset
	if in.obs.LastContact.After(last) {
		last = in.obs.LastContact
	}
	at := last.Add(in.policy.AgentDeadline)
	if heard := in.obs.ListeningSince.Add(min(in.policy.RetryMax, in.policy.AgentDeadline)); heard.After(at) {
		return heard
	}
	return at
}
