// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"strings"
	"time"
	"unicode/utf8"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// The state of a remediation is in the claim of its host, so that a lost status, a move, or a
// second remediation of the host repeats nothing (I2, I3).

// Machine is the state of the Machine to remediate in Cluster API.
type Machine struct {
	// Missing: the remediation has no Machine as its owner.
	Missing bool
	// Deleting: it is being deleted, or gone.
	Deleting bool
	// HealthySince is since when its condition HealthCheckSucceeded is True. Zero: it is not.
	HealthySince time.Time
	// Delegated: its conditions HealthCheckSucceeded and OwnerRemediated are both False, so
	// that its owner replaces it.
	Delegated bool
	// RemediationRequested: it has the annotation remediate-machine, with which it never becomes healthy.
	RemediationRequested bool
	// Foreign is the kind of its infrastructure. Empty: IngotMachine.
	Foreign string
	// Joined: it has, or had, a Node.
	Joined bool
	// LeavesSentinel is the result of the function of that name.
	LeavesSentinel bool
	// ControlPlane: the workload cluster's API may run on its Node.
	ControlPlane bool
	// PausedBy is the annotation by which an operator pauses the remediation of the Machine
	// or its IngotMachine. Empty: none.
	PausedBy string
}

// Node is the state of the Machine's Node in the workload cluster.
type Node struct {
	// BootID of the running system. Empty: the Node could not be read.
	BootID string
	// Ready: the Node's condition Ready is True. HasProblem: so is another condition, most of which
	// report a problem.
	Ready, HasProblem bool
	// Unreachable: the workload cluster does not answer.
	Unreachable bool
}

// Observation is the input of Decide.
type Observation struct {
	Now     time.Time
	Machine Machine
	// ActiveSince is since when nothing pauses the remediation: no annotation, and no operator
	// at work on the host. Until the creation of the remediation: always.
	ActiveSince time.Time
	Node        Node
	// Host that the Machine's IngotMachine has claimed. Nil: none at present.
	Host *infrav1.IngotHost
	// MaxAttempts is how many failed installs in a row end the install. Zero: the default of
	// lifecycle.Policy.
	MaxAttempts int32
	// HostLost: the Machine was provisioned, and its IngotMachine is gone or has lost its host.
	HostLost bool
}

// Step is the next action of a remediation.
type Step interface{ step() }

// DelegateToOwner asks the Machine's owner to replace it.
type DelegateToOwner struct{}

// RemoveFinalizer removes the finalizer of the remediation.
type RemoveFinalizer struct{}

// SaveLedger writes the persistent state of the host with an optimistic lock on the version that
// was decided on.
type SaveLedger struct{ Ledger lifecycle.Ledger }

// Wait does nothing before Until.
type Wait struct{ Until time.Time }

// Idle does nothing until an object changes.
type Idle struct{}

func (DelegateToOwner) step() {}
func (RemoveFinalizer) step() {}
func (SaveLedger) step()      {}
func (Wait) step()            {}
func (Idle) step()            {}

// Decision is the result of Decide: the step and its explanation.
type Decision struct {
	Step Step
	// Rule names the rule that decided, for logs and tests.
	Rule string
	// Reason and Message go into the Ready condition. Event is "", "Normal" or "Warning"; the
	// caller emits it when Reason becomes the reason of that condition.
	Reason, Message, Event string
	// IsPaused: the remediation is paused, and none of its deadlines runs.
	IsPaused bool
}

// Decide decides the next step of a remediation. It is deterministic and changes nothing.
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
		decision = Decision{Step: Idle{}, Reason: infrav1.ReasonUnknown, Message: "No rule applies to this remediation, which is a defect of Ingot. Ingot does nothing to the Machine."}
	}
	decision.Rule = by
	if obs.Host != nil {
		decision.Message = shortenName(decision.Message, obs.Host.Name)
	}
	return decision
}

// shortenName shortens a name in a message that is longer than inventory.MaxText.
func shortenName(message, name string) string {
	over := utf8.RuneCountInString(message) - inventory.MaxText
	if over <= 0 || over+2 > len(name) {
		return message
	}
	return strings.Replace(message, name, name[:len(name)-over-1]+"…", 1)
}
