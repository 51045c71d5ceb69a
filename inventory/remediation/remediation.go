// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file is what a remediation is decided on, and what can be decided.
// What has been done stands in the claim of its host, never in the remediation, so
// that a lost status, a move, or a second remediation of the same host repeats
// nothing (I2, I3).

// Machine is the Machine that is to be remediated, as Cluster API has it.
type Machine struct {
	// Missing: the remediation names none as its owner.
	Missing bool
	// Deleting: it is being deleted already, or gone.
	Deleting bool
	// HealthySince is since when its condition HealthCheckSucceeded is True; zero: it is not.
	HealthySince time.Time
	// HandedOver: its conditions HealthCheckSucceeded and OwnerRemediated are False, so
	// that its owner replaces it. One of them alone tells the owner nothing.
	HandedOver bool
	// Marked: a person wants it remediated (annotation remediate-machine), so that it is
	// never found healthy, whatever helps it.
	Marked bool
	// Foreign is the kind of its infrastructure, where that is not an IngotMachine.
	Foreign string
	// Joined: it has, or had, a Node.
	Joined bool
	// LeavesSentinel: after its bootstrap the sentinel file is there only if it succeeded.
	LeavesSentinel bool
	// ControlPlane: its Node may be what the workload cluster's API runs on.
	ControlPlane bool
	// LeftAlone names the annotation by which a person has the Machine, or its
	// IngotMachine, left alone; empty: there is none.
	LeftAlone string
}

// Node is the Machine's Node, as the workload cluster has it.
type Node struct {
	// BootID of the running system; empty: the Node could not be read.
	BootID string
	// Ready: the Node's condition of that name is True; Ill: so is another, which most
	// that there are mean no good by.
	Ready, Ill bool
	// Unreachable: the workload cluster does not answer.
	Unreachable bool
}

// Observation is what a remediation is decided on.
type Observation struct {
	Now     time.Time
	Machine Machine
	// ActiveSince is since when the remediation is acted on: not paused, and no person at
	// work on the host. Not after the creation of the remediation: always.
	ActiveSince time.Time
	Node        Node
	// Host that the Machine's IngotMachine has claimed; nil: none, for now.
	Host *infrav1.IngotHost
	// MaxAttempts is after how many tries in a row an installation is given up; zero: the
	// default of Policy.
	MaxAttempts int32
	// HostLost: the Machine was provisioned, and its IngotMachine is gone or the host no
	// longer its own.
	HostLost bool
}

// Step is the next thing to do about the Machine: SaveLedger (of the host), Wait,
// Idle, or one of these.
type Step interface{ step() }

// HandOver asks the Machine's owner to replace it.
type HandOver struct{}

// LetGo ends the remediation: its finalizer is removed.
type LetGo struct{}

// SaveLedger writes the persistent state of the host by optimistic lock on the version that
// was decided on.
type SaveLedger struct{ Ledger lifecycle.Ledger }

// Wait does nothing before Until.
type Wait struct{ Until time.Time }

// Idle does nothing until an object changes.
type Idle struct{}

func (HandOver) step()   {}
func (LetGo) step()      {}
func (SaveLedger) step() {}
func (Wait) step()       {}
func (Idle) step()       {}

// Decision is what Decide says: the step, and what people are told.
type Decision struct {
	Step Step
	// Rule names the rule that decided, for logs and tests.
	Rule string
	// Reason and Message go into the Ready condition; Event is "", "Normal" or "Warning"
	// and meant for the moment when Reason becomes the reason of that condition.
	Reason, Message, Event string
	// Held: nobody acts on the remediation for now; no deadline of it runs.
	Held bool
}

// Decide decides what is to be done next about the Machine of a remediation. Like Next
// it changes nothing and gives the same answer to the same question.
func Decide(remediation *infrav1.IngotRemediation, obs Observation) Decision {
	return decideBy(allRules(), remediation, obs)
}

func decideBy(l table, remediation *infrav1.IngotRemediation, obs Observation) Decision {
	in := &input{spec: remediation.Spec, created: remediation.CreationTimestamp.Time,
		deleting: !remediation.DeletionTimestamp.IsZero(), obs: obs}
	if obs.Host != nil {
		in.claim = obs.Host.Spec.Claim
		in.idleUntilInstalled()
	}
	decision, by, decided := l.Decide(in)
	if !decided {
		decision = Decision{Step: Idle{}, Reason: infrav1.ReasonUnknown, Message: "no rule applies: this is a defect of Ingot; nothing is done about the Machine"}
	}
	decision.Rule = by
	return decision
}
