// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file is what a remediation does, and tells people.

func (in *input) now() metav1.Time { return metav1.Time{Time: in.obs.Now} }

func (in *input) host() string { return "IngotHost " + in.obs.Host.Name }

// endCycle: the Machine is healthy, or gone, or a person works on the host. That is not
// switched off any more; if it was, it is switched on.
func endCycle(in *input) Decision {
	ledger := lifecycle.LedgerOf(in.obs.Host)
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	return Decision{Step: SaveLedger{Ledger: ledger}, Reason: infrav1.ReasonPowerCycling,
		Message: in.host() + " need not be switched off any more"}
}

// pardonHost: the Machine lives and its remediation is over, so that it helped itself
// after it was handed over.
func pardonHost(in *input) Decision {
	ledger := lifecycle.LedgerOf(in.obs.Host)
	ledger.Claim.Quarantine = nil
	return Decision{Step: SaveLedger{Ledger: ledger}, Reason: infrav1.ReasonDeleting,
		Message: "the remediation ends and the Machine was not replaced: nothing is held against " + in.host()}
}

func letRemedyGo(*input) Decision {
	return Decision{Step: LetGo{}, Reason: infrav1.ReasonDeleting, Message: "the remediation ends"}
}

func sayMachineMissing(*input) Decision {
	return Decision{Step: Idle{}, Event: "Warning", Reason: infrav1.ReasonMachineMissing,
		Message: "the remediation has no Machine as its owner: nothing is done; delete it, and let a MachineHealthCheck make remediations"}
}

func sayMachineDeleting(*input) Decision {
	return Decision{Step: Idle{}, Reason: infrav1.ReasonDeleting,
		Message: "the Machine is being deleted: its host is released, switched off and cleaned as at any deletion"}
}

func sayHealthy(*input) Decision {
	return Decision{Step: Idle{}, Event: "Normal", Reason: infrav1.ReasonNodeHealthy,
		Message: "Cluster API finds the Machine healthy, and ends the remediation"}
}

func sayHandedOver(in *input) Decision {
	message := "the Machine is handed over to its owner, which replaces it as far as it may: see its condition OwnerRemediated; without an owner or a MachineHealthCheck, delete the Machine"
	if in.inUse() && in.marked() {
		message = in.claim.Quarantine.Message + "; " + message
	}
	return Decision{Step: Idle{}, Reason: infrav1.ReasonHandedOver, Message: inventory.ClipMessage(message)}
}

// sayNotInUse: a machine that waits for a host would wait as well under another name.
func sayNotInUse(*input) Decision {
	return Decision{Step: Idle{}, Reason: infrav1.ReasonProvisioning,
		Message: "the Machine has no host that could be restarted; see the IngotMachine"}
}

func sayPersonAtWork(in *input) Decision {
	what := "spec.maintenance"
	if in.obs.Host.Spec.Power == infrav1.PowerIntentOff {
		what = "spec.power Off"
	}
	return Decision{Step: Idle{}, Held: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: fmt.Sprintf("a person works on %s (%s): nothing is done; unset it to have the Machine remediated, or delete the Machine to have it replaced", in.host(), what)}
}

func sayLeftAlone(in *input) Decision {
	return Decision{Step: Idle{}, Held: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: fmt.Sprintf("a person wants the Machine left alone (annotation %s): nothing is done; remove the annotation to have the Machine remediated", in.obs.Machine.LeftAlone)}
}

func sayHostPaused(in *input) Decision {
	return Decision{Step: Idle{}, Held: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: fmt.Sprintf("%s is paused (annotation %s): nothing is done; remove the annotation to have the Machine remediated", in.host(), lifecycle.HostPause(in.obs.Host))}
}

// sayEndHeld: the host's controller does not switch it meanwhile either.
func sayEndHeld(in *input) Decision {
	return Decision{Step: Idle{}, Held: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: fmt.Sprintf("%s is paused (annotation %s): what was asked of it is taken back when it is not any more", in.host(), lifecycle.HostPause(in.obs.Host))}
}

// sayUnreachable: MachineHealthCheck, too, sees nothing of the Node, be it well.
func sayUnreachable(in *input) Decision {
	return Decision{Step: Idle{}, Held: true, Event: "Warning", Reason: infrav1.ReasonWaitingForNode,
		Message: "the workload cluster is not reached, so that nobody knows how the Node is: nothing more is decided about " + in.host() + " until it is"}
}

func sayNodeBack(in *input) Decision {
	return Decision{Step: Idle{}, Event: "Warning", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("the Node is Ready again, with another boot ID than before power cycle %d, and MachineHealthCheck has not ended this: is there still one that names this template, and is it not paused? Delete this remediation if the Node is well, or the Machine if it is not", in.count())}
}

func waitCycle(in *input) Decision {
	return Decision{Step: Wait{Until: in.cycleDue()}, Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("power cycle %d of %d of %s is under way (%s); it may take until %s, then the Machine is handed over",
			in.claim.PowerCycle.Count, in.limit(), in.host(), in.cyclePart(), inventory.FormatTime(in.cycleDue()))}
}

func (in *input) cyclePart() string {
	if in.claim.PowerCycle.State == infrav1.PowerCycleOff {
		return "its BMC is to switch it off"
	}
	return "its BMC is to switch it on"
}

func waitNode(in *input) Decision {
	next := "then the Machine is handed over to be replaced"
	if in.cyclesLeft() {
		next = "then the power is cycled again"
	}
	did := "was switched off and on"
	if off := in.claim.PowerCycle.ConfirmedOff; off == nil || !*off {
		did = "was not switched off after all"
	}
	return Decision{Step: Wait{Until: in.nodeDue()}, Event: "Normal", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("%s %s (power cycle %d of %d); the Node has until %s to be healthy, %s",
			in.host(), did, in.count(), in.limit(), inventory.FormatTime(in.nodeDue()), next)}
}

func waitGrace(in *input) Decision {
	next := "the Machine is handed over to be replaced"
	if in.cyclesLeft() {
		next = "the power is cycled"
	}
	return Decision{Step: Wait{Until: in.graceDue()}, Event: "Normal", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("nothing was done about this until %s, and %s may be booting: the Node has until %s to be healthy, then %s",
			inventory.FormatTime(in.obs.ActiveSince), in.host(), inventory.FormatTime(in.graceDue()), next)}
}

// askCycle writes the wish into the claim; the host's controller switches.
func askCycle(in *input) Decision {
	ledger := lifecycle.LedgerOf(in.obs.Host)
	ledger.Claim.PowerCycle = &infrav1.ClaimPowerCycle{
		Count: in.count() + 1, State: infrav1.PowerCycleOff, AskedAt: in.now(), BootID: in.obs.Node.BootID,
	}
	if before := in.claim.PowerCycle; before != nil {
		ledger.Claim.PowerCycle.WasOn = before.WasOn
	}
	return Decision{Step: SaveLedger{Ledger: ledger}, Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("power cycle %d of %d of %s is asked for", in.count()+1, in.limit(), in.host())}
}

// Handing over.

func handOver(reason, message string) Decision {
	return Decision{Step: HandOver{}, Event: "Warning", Reason: reason, Message: inventory.ClipMessage(message + "; the Machine is handed over to be replaced")}
}

// replace hands the Machine over, after a power cycle that is under way has ended.
func (in *input) replace(reason, message string) Decision {
	if !in.cycleCutting() {
		return handOver(reason, message)
	}
	decision := endCycle(in)
	decision.Reason, decision.Message = reason, inventory.ClipMessage(message)
	return decision
}

// condemn first writes into the claim what the host will be out of service for, so that
// its Machine's replacement is not put on it again; then the Machine is handed over. A
// power cycle that is under way ends with that.
func (in *input) condemn(reason, message string) Decision {
	if in.spec.FailedHost == infrav1.FailedHostReuse {
		return in.replace(reason, message)
	}
	ledger := lifecycle.LedgerOf(in.obs.Host)
	if in.cycleCutting() {
		ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	}
	ledger.Claim.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed, Message: inventory.ClipMessage(message), Since: in.now()}
	return Decision{Step: SaveLedger{Ledger: ledger}, Event: "Warning", Reason: reason, Message: inventory.ClipMessage(message)}
}

func handOverMarked(in *input) Decision {
	return handOver(infrav1.ReasonHandedOver, in.claim.Quarantine.Message)
}

func handOverLost(*input) Decision {
	return handOver(infrav1.ReasonHostLost, "the Machine's IngotMachine is gone, or its host no longer its own")
}

// handOverAsked: MachineHealthCheck finds such a Machine unhealthy for as long as the mark
// stands, so that no power cycle can help it, and its host is not to blame.
func handOverAsked(*input) Decision {
	return handOver(infrav1.ReasonHandedOver, "a person marked the Machine (annotation "+clusterv1.RemediateMachineAnnotation+"): its power is not cycled")
}

func handOverForeign(in *input) Decision {
	return handOver(infrav1.ReasonHandedOver, "the Machine's infrastructure is "+in.obs.Machine.Foreign+", which Ingot cannot restart: give such Machines a MachineHealthCheck that does not name an IngotRemediationTemplate")
}

func handOverUnmanaged(in *input) Decision {
	return handOver(infrav1.ReasonUnmanaged, in.host()+" has no BMC in spec.bmc that could switch it")
}

func handOverAtOnce(*input) Decision {
	return handOver(infrav1.ReasonHandedOver, "spec.retryLimit is 0: nothing is tried")
}

// uncycled: it was not done, and the host's conditions say why.
func (in *input) uncycled() string {
	message := fmt.Sprintf("the BMC of %s did not switch it off and on within %s", in.host(), in.timeout())
	if in.notToBeSwitched() {
		message = fmt.Sprintf("Ingot did not have %s switched off and on within %s", in.host(), in.timeout())
	}
	if ready := meta.FindStatusCondition(in.obs.Host.Status.Conditions, infrav1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		message += fmt.Sprintf(" (%s: %s)", ready.Reason, ready.Message)
	}
	return message
}

func condemnUncycled(in *input) Decision {
	return in.condemn(infrav1.ReasonPowerCycleFailed, in.uncycled())
}

func handOverUncycled(in *input) Decision {
	return in.replace(infrav1.ReasonPowerCycleFailed, in.uncycled())
}

func condemnExhausted(in *input) Decision {
	return in.condemn(infrav1.ReasonHealthFailed, fmt.Sprintf("Machine of IngotMachine %s stayed unhealthy, or was so again, after %d power cycles",
		in.claim.MachineRef.Name, in.count()))
}

// Restarted tells of a remediation whether the host was restarted, and what proves it:
// another boot ID of its Node, else what its BMC said of the power.
func Restarted(obs Observation) metav1.Condition {
	const name = infrav1.RemediationRestartedCondition
	if obs.Host == nil || obs.Host.Spec.Claim == nil || obs.Host.Spec.Claim.PowerCycle == nil {
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "no power cycle was asked for")
	}
	cycle := obs.Host.Spec.Claim.PowerCycle
	known := cycle.BootID != "" && obs.Node.BootID != ""
	switch {
	case known && cycle.BootID != obs.Node.BootID:
		return inventory.TrueCondition(name, infrav1.ReasonBootIDChanged, "the Node has another boot ID than before power cycle "+fmt.Sprint(cycle.Count))
	case lifecycle.CycleUnderWay(obs.Host.Spec.Claim):
		return inventory.FalseCondition(name, infrav1.ReasonPowerCycling, fmt.Sprintf("power cycle %d is under way", cycle.Count))
	case known && obs.Node.Ready && cycle.ConfirmedOff != nil && *cycle.ConfirmedOff:
		return inventory.FalseCondition(name, infrav1.ReasonBootIDUnchanged, fmt.Sprintf("the BMC says that IngotHost %s was switched off and on, but the Node is Ready with the boot ID of before: does spec.bmc.address name the server of this Node?", obs.Host.Name))
	case cycle.ConfirmedOff != nil && *cycle.ConfirmedOff:
		return inventory.TrueCondition(name, infrav1.ReasonPowerReadBack, fmt.Sprintf("in power cycle %d the BMC said off, then on; the Node tells no other boot ID yet", cycle.Count))
	default:
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "the power cycle was ended before the host was off")
	}
}
