// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is the life of a remediation: what is done about an unhealthy Machine.
// What has been done stands in the claim of its host, never in the remediation, so
// that a lost status, a move, or a second remediation of the same host repeats
// nothing (I2, I3).

// RemedyMachine is the Machine that is to be remediated, as Cluster API has it.
type RemedyMachine struct {
	// Missing: the remediation names none as its owner.
	Missing bool
	// Deleting: it is being deleted already, or gone.
	Deleting bool
	// HealthySince is since when its condition HealthCheckSucceeded is True; zero: it is not.
	HealthySince time.Time
	// HandedOver: its condition OwnerRemediated is False, so that its owner replaces it.
	HandedOver bool
	// ControlPlane: its Node may be what the workload cluster's API runs on.
	ControlPlane bool
	// LeftAlone names the annotation by which a person has the Machine, or its
	// IngotMachine, left alone; empty: there is none.
	LeftAlone string
}

// RemedyNode is the Machine's Node, as the workload cluster has it.
type RemedyNode struct {
	// BootID of the running system; empty: the Node could not be read.
	BootID string
	// Ready: the Node's condition of that name is True; Ill: so is another, which most
	// that there are mean no good by.
	Ready, Ill bool
	// Unreachable: the workload cluster does not answer.
	Unreachable bool
}

// RemedyObservation is what a remediation is decided on.
type RemedyObservation struct {
	Now     time.Time
	Machine RemedyMachine
	// ActiveSince is since when the remediation is acted on: not paused, and no person at
	// work on the host. Not after the creation of the remediation: always.
	ActiveSince time.Time
	Node        RemedyNode
	// Host that the Machine's IngotMachine has claimed; nil: none, for now.
	Host *infrav1.IngotHost
	// HostLost: the Machine was provisioned and its host is no longer its own.
	HostLost bool
}

// RemedyStep is the next thing to do about the Machine: SaveLedger (of the host), Wait,
// Idle, or one of these.
type RemedyStep interface{ remedyStep() }

// HandOver asks the Machine's owner to replace it.
type HandOver struct{}

// LetGo ends the remediation: its finalizer is removed.
type LetGo struct{}

func (HandOver) remedyStep()   {}
func (LetGo) remedyStep()      {}
func (SaveLedger) remedyStep() {}
func (Wait) remedyStep()       {}
func (Idle) remedyStep()       {}

// RemedyDecision is what Remedy says: the step, and what people are told.
type RemedyDecision struct {
	Step RemedyStep
	// Rule names the rule that decided, for logs and tests.
	Rule string
	// Reason and Message go into the Ready condition; Event is "", "Normal" or "Warning"
	// and meant for the moment when Reason becomes the reason of that condition.
	Reason, Message, Event string
	// Held: nobody acts on the remediation for now; no deadline of it runs.
	Held bool
}

// remedyRule is one rung of the ladder; see rule.
type remedyRule struct {
	name  string
	when  []remedyCondition
	then  func(*remedyInput) RemedyDecision
	rules []remedyRule
}

type remedyCondition func(*remedyInput) bool

// asFar shortens the tables.
type asFar = []remedyCondition

// Remedy decides what is to be done next about the Machine of a remediation. Like Next
// it changes nothing and gives the same answer to the same question.
func Remedy(remediation *infrav1.IngotRemediation, obs RemedyObservation) RemedyDecision {
	return remedyOf(remedyLadder(), remediation, obs)
}

func remedyOf(ladder []remedyRule, remediation *infrav1.IngotRemediation, obs RemedyObservation) RemedyDecision {
	in := &remedyInput{spec: remediation.Spec, created: remediation.CreationTimestamp.Time,
		deleting: !remediation.DeletionTimestamp.IsZero(), obs: obs}
	if obs.Host != nil {
		in.claim = obs.Host.Spec.Claim
	}
	decision, decided := in.decide(ladder)
	if !decided {
		return RemedyDecision{Step: Idle{}, Reason: infrav1.ReasonUnknown, Message: "no rule applies: this is a defect of Ingot; nothing is done about the Machine"}
	}
	return decision
}

func (in *remedyInput) decide(rules []remedyRule) (RemedyDecision, bool) {
	for i := range rules {
		r := &rules[i]
		if !in.holds(r.when) {
			continue
		}
		if r.then != nil {
			decision := r.then(in)
			decision.Rule = r.name
			return decision, true
		}
		if decision, decided := in.decide(r.rules); decided {
			return decision, true
		}
	}
	return RemedyDecision{}, false
}

func (in *remedyInput) holds(conditions []remedyCondition) bool {
	for _, holds := range conditions {
		if !holds(in) {
			return false
		}
	}
	return true
}

// remedyLadder is the life of a remediation, top to bottom.
func remedyLadder() []remedyRule {
	return []remedyRule{
		{name: "deleting", when: asFar{(*remedyInput).isDeleting}, rules: []remedyRule{
			{name: "deleting/cycle", when: asFar{(*remedyInput).inUse, (*remedyInput).cycleCutting}, then: endCycle},
			{name: "deleting/pardon", when: asFar{(*remedyInput).inUse, (*remedyInput).marked, (*remedyInput).machineLives}, then: pardonHost},
			{name: "deleting/let-go", then: letRemedyGo},
		}},
		{name: "machine-missing", when: asFar{(*remedyInput).machineMissing}, then: sayMachineMissing},
		{name: "machine-deleting", when: asFar{(*remedyInput).machineDeleting}, rules: unswitched("machine-deleting", sayMachineDeleting)},
		{name: "healthy", when: asFar{(*remedyInput).healthy}, rules: unswitched("healthy", sayHealthy)},
		{name: "handed-over", when: asFar{(*remedyInput).handedOver}, rules: unswitched("handed-over", sayHandedOver)},
		{name: "left-alone", when: asFar{(*remedyInput).leftAlone}, rules: unswitched("left-alone", sayLeftAlone)},
		{name: "condemned", when: asFar{(*remedyInput).inUse, (*remedyInput).marked}, then: handOverMarked},
		{name: "host-lost", when: asFar{(*remedyInput).hostLost}, then: handOverLost},
		{name: "no-host", when: asFar{(*remedyInput).notInUse}, then: sayNotInUse},
		{name: "host-paused", when: asFar{(*remedyInput).hostPaused}, then: sayHostPaused},
		{name: "unmanaged", when: asFar{(*remedyInput).unmanaged}, then: handOverUnmanaged},
		{name: "person", when: asFar{(*remedyInput).personAtWork}, rules: []remedyRule{
			{name: "person/cycle", when: asFar{(*remedyInput).cycleCutting}, then: endCycle},
			{name: "person/wait", then: sayPersonAtWork},
		}},
		{name: "unreachable", when: asFar{(*remedyInput).nodeAwaited, (*remedyInput).unreachable, (*remedyInput).worker}, then: sayUnreachable},
		{name: "cycling", when: asFar{(*remedyInput).cycling}, rules: []remedyRule{
			{name: "cycling/overdue", when: asFar{(*remedyInput).cycleOverdue}, then: condemnUncycled},
			{name: "cycling/wait", then: waitCycle},
		}},
		{name: "restarted", when: asFar{(*remedyInput).cycled, (*remedyInput).nodeHasTime}, then: waitNode},
		{name: "back", when: asFar{(*remedyInput).cycled, (*remedyInput).nodeBack}, then: sayNodeBack},
		{name: "grace", when: asFar{(*remedyInput).interrupted, (*remedyInput).graceLeft, (*remedyInput).notSeenOff}, then: waitGrace},
		{name: "cycle", when: asFar{(*remedyInput).cyclesLeft}, then: askCycle},
		{name: "none-wanted", when: asFar{(*remedyInput).noneWanted}, then: handOverAtOnce},
		{name: "exhausted", then: condemnExhausted},
	}
}

// unswitched leaves the Machine as it is, and has its host not switched off any more.
func unswitched(name string, say func(*remedyInput) RemedyDecision) []remedyRule {
	return []remedyRule{
		{name: name + "/cycle", when: asFar{(*remedyInput).inUse, (*remedyInput).cycleCutting}, then: endCycle},
		{name: name + "/wait", then: say},
	}
}
