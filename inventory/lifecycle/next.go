// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/rules"
)

// ladder is a host's life as rules; when shortens its tables.
type (
	ladder = rules.Table[*input, Decision]
	when   = []func(*input) bool
)

// input is all that a decision depends on. Nothing in it is ever changed.
type input struct {
	host   *infrav1.IngotHost
	claim  *infrav1.HostClaim
	record *infrav1.HostRecord
	order  *infrav1.HostOrder
	obs    Observation
	policy Policy
}

// Next decides what is to be done next to a host: one step, and what people are
// told. It changes nothing, knows no clock but obs.Now, and gives the same answer
// to the same question; so the caller may ask it as often as it likes, after a
// crash, or with all status lost (I2, I3).
func Next(host *infrav1.IngotHost, obs Observation, policy Policy) Decision {
	return nextBy(append(enrolledLadder(), hostLadder()...), host, obs, policy)
}

func nextBy(l ladder, host *infrav1.IngotHost, obs Observation, policy Policy) Decision {
	in := &input{
		host:   host,
		claim:  host.Spec.Claim,
		record: host.Spec.Record,
		order:  host.Spec.Order,
		obs:    obs,
		policy: policy,
	}
	decision, by, decided := l.Decide(in)
	if !decided {
		decision = Decision{Step: Idle{}, Reason: infrav1.ReasonUnknown, Message: "no rule applies: this is a defect of Ingot; nothing is done to the host"}
	}
	decision.Rule = by
	decision.Phase = in.phase()
	decision.Message += in.unheard(decision)
	return decision
}

// PhaseOf sums up the ledger of a host for people, for when nobody may look at the
// server: during a pause.
func PhaseOf(host *infrav1.IngotHost) infrav1.IngotHostPhase {
	return (&input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order}).phase()
}

// phase sums up the ledger; an error is a condition, not a phase.
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

// retryAt is when to look again if nobody says when.
func (in *input) retryAt() time.Time {
	if in.obs.RetryAt.After(in.obs.Now) {
		return in.obs.RetryAt
	}
	return in.obs.Now.Add(in.policy.ResetInterval)
}

// switchableAt is when the host may be switched again.
func (in *input) switchableAt() time.Time {
	return in.obs.LastReset.Add(in.policy.ResetInterval)
}

// imageAt is when an image that failed is tried again: after the reset interval,
// doubled with each attempt, up to the policy's bound (I13).
func (in *input) imageAt() time.Time {
	wait := in.policy.ResetInterval << min(in.order.Attempt-1, 16)
	return in.order.Result.At.Add(min(wait, in.policy.RetryMax))
}

// cutAt is when the power of a host that was asked to shut down is cut.
func (in *input) cutAt() time.Time { return in.obs.SoftOffAt.Add(in.policy.SoftPowerOff) }

// lookForOffAt is when the power state of a host that shuts down is read again: what comes
// next, for its cluster too, waits for it to be off.
func (in *input) lookForOffAt() time.Time {
	next := in.obs.Now.Add(in.policy.ShutdownPoll)
	if cut := in.cutAt(); cut.Before(next) {
		return cut
	}
	return next
}

// silentAt is when an agent that has not spoken since is given up. One that found nobody
// to speak to, since Ingot or its API server was away, gets the time to be heard: it tries
// again at growing intervals.
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
