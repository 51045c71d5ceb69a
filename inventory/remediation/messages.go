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

// This file has the steps of a remediation and their messages.

func (in *input) now() metav1.Time { return metav1.Time{Time: in.obs.Now} }

func (in *input) host() string { return "IngotHost " + in.obs.Host.Name }

// endCycle cancels a power-off, because the Machine is healthy or gone, or an operator works on
// the host. A host that is already off is powered on again.
func endCycle(in *input) Decision {
	ledger := lifecycle.LedgerOf(in.obs.Host)
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	return Decision{Step: SaveLedger{Ledger: ledger}, Reason: infrav1.ReasonPowerCycling,
		Message: in.host() + " no longer needs a power cycle."}
}

// clearQuarantineMark applies if the remediation ends and the Machine still exists: it recovered
// after Ingot had asked its owner to replace it.
func clearQuarantineMark(in *input) Decision {
	ledger := lifecycle.LedgerOf(in.obs.Host)
	ledger.Claim.Quarantine = nil
	return Decision{Step: SaveLedger{Ledger: ledger}, Reason: infrav1.ReasonDeleting,
		Message: "The remediation ends without a replacement. Ingot does not quarantine " + in.host() + "."}
}

func removeFinalizer(*input) Decision {
	return Decision{Step: RemoveFinalizer{}, Reason: infrav1.ReasonDeleting, Message: "The remediation ends."}
}

func sayMachineMissing(*input) Decision {
	return Decision{Step: Idle{}, Event: "Warning", Reason: infrav1.ReasonMachineMissing,
		Message: "The remediation has no Machine as its owner, so Ingot does nothing. Delete it, and let a MachineHealthCheck create remediations."}
}

func sayMachineDeleting(*input) Decision {
	return Decision{Step: Idle{}, Reason: infrav1.ReasonDeleting,
		Message: "The Machine is being deleted. Ingot releases its host, powers it off and cleans it."}
}

func sayHealthy(*input) Decision {
	return Decision{Step: Idle{}, Event: "Normal", Reason: infrav1.ReasonNodeHealthy,
		Message: "The Machine is healthy. Cluster API ends the remediation."}
}

func sayDelegated(in *input) Decision {
	const owner = "The Machine's owner should replace it, see its condition OwnerRemediated. Without an owner, delete the Machine."
	message := owner
	if in.inUse() && in.marked() {
		message = inventory.WithDetail("", in.claim.Quarantine.Message, ". "+owner)
	}
	return Decision{Step: Idle{}, Reason: infrav1.ReasonOwnerRemediationRequested, Message: message}
}

// sayNotInUse: a replacement of a machine that waits for a host would wait as well.
func sayNotInUse(*input) Decision {
	return Decision{Step: Idle{}, Reason: infrav1.ReasonProvisioning,
		Message: "The Machine has no host that Ingot could restart. See the IngotMachine."}
}

func sayPersonAtWork(in *input) Decision {
	what := "spec.maintenance"
	if in.obs.Host.Spec.Power == infrav1.PowerIntentOff {
		what = "spec.power Off"
	}
	return Decision{Step: Idle{}, IsPaused: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: in.host() + " has " + what + ", so Ingot does nothing. Unset it to continue the remediation, or delete the Machine."}
}

func sayLeftAlone(in *input) Decision {
	return Decision{Step: Idle{}, IsPaused: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: fmt.Sprintf("The Machine has the annotation %s, so Ingot does nothing. Remove it to continue the remediation.", in.obs.Machine.PausedBy)}
}

func sayHostPaused(in *input) Decision {
	return Decision{Step: Idle{}, IsPaused: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: in.paused("does nothing. Remove it to continue the remediation.")}
}

// paused is a message about a paused host.
func (in *input) paused(then string) string {
	return fmt.Sprintf("%s has the annotation %s, so Ingot %s", in.host(), lifecycle.HostPause(in.obs.Host), then)
}

// sayEndHeld: the host controller does not power a paused host off either.
func sayEndHeld(in *input) Decision {
	return Decision{Step: Idle{}, IsPaused: true, Event: "Warning", Reason: infrav1.ReasonMaintenance,
		Message: in.paused("cancels its power cycle after the pause.")}
}

// sayUnreachable: the MachineHealthCheck does not see the Node either, so it may be healthy.
func sayUnreachable(in *input) Decision {
	return Decision{Step: Idle{}, IsPaused: true, Event: "Warning", Reason: infrav1.ReasonWaitingForNode,
		Message: "The workload cluster does not answer, so the state of the Node is unknown. Until then Ingot does nothing to " + in.host() + "."}
}

func sayNodeBack(in *input) Decision {
	return Decision{Step: Idle{}, Event: "Warning", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("The Node is Ready after power cycle %d, but no MachineHealthCheck ends the remediation: is it deleted or paused? If the Node is healthy, delete this remediation, else the Machine.", in.count())}
}

func waitCycle(in *input) Decision {
	return Decision{Step: Wait{Until: in.cycleDue()}, Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("Power cycle %d of %d of %s: %s. If it lasts after %s, Ingot asks the owner to replace the Machine.",
			in.claim.PowerCycle.Count, in.limit(), in.host(), in.cyclePart(), inventory.FormatTime(in.cycleDue()))}
}

func (in *input) cyclePart() string {
	if in.claim.PowerCycle.State == infrav1.PowerCycleOff {
		return "powering off"
	}
	return "powering on"
}

func waitNode(in *input) Decision {
	did := "done"
	if off := in.claim.PowerCycle.ConfirmedOff; off == nil || !*off {
		did = "canceled"
	}
	return Decision{Step: Wait{Until: in.nodeDue()}, Event: "Normal", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("Power cycle %d of %d of %s is %s. The Node has until %s to become healthy, then %s.",
			in.count(), in.limit(), in.host(), did, inventory.FormatTime(in.nodeDue()), in.afterWait())}
}

// afterWait is what Ingot does if the Node is still unhealthy.
func (in *input) afterWait() string {
	if in.cyclesLeft() {
		return "Ingot cycles the power"
	}
	return "the owner replaces the Machine"
}

func waitGrace(in *input) Decision {
	return Decision{Step: Wait{Until: in.graceDue()}, Event: "Normal", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("Ingot was inactive until %s, and %s may be booting. The Node has until %s to become healthy, then %s.",
			inventory.FormatTime(in.obs.ActiveSince), in.host(), inventory.FormatTime(in.graceDue()), in.afterWait())}
}

// askCycle requests a power cycle in the claim. The host controller carries it out.
func askCycle(in *input) Decision {
	ledger := lifecycle.LedgerOf(in.obs.Host)
	ledger.Claim.PowerCycle = &infrav1.ClaimPowerCycle{
		Count: in.count() + 1, State: infrav1.PowerCycleOff, RequestTime: in.now(), BootID: in.obs.Node.BootID,
	}
	if before := in.claim.PowerCycle; before != nil {
		ledger.Claim.PowerCycle.WasOn = before.WasOn
	}
	return Decision{Step: SaveLedger{Ledger: ledger}, Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("Ingot requests power cycle %d of %d of %s.", in.count()+1, in.limit(), in.host())}
}

// delegateToOwner asks the Machine's owner to replace it. message is a sentence.
func delegateToOwner(reason, message string) Decision {
	return Decision{Step: DelegateToOwner{}, Event: "Warning", Reason: reason,
		Message: inventory.WithDetail("", message, ". Ingot asks the Machine's owner to replace it.")}
}

// replace delegates to the owner, after it has ended a running power cycle.
func (in *input) replace(reason, message string) Decision {
	if !in.cycleCutting() {
		return delegateToOwner(reason, message)
	}
	decision := endCycle(in)
	decision.Reason, decision.Message = reason, inventory.WithDetail("", message, ".")
	return decision
}

// quarantineAndReplace first writes the quarantine into the claim, so that the replacement does
// not get the same host. That also ends a running power cycle. Then Ingot delegates to the
// Machine's owner.
func (in *input) quarantineAndReplace(reason, message string) Decision {
	if in.spec.FailedHost == infrav1.FailedHostReuse {
		return in.replace(reason, message)
	}
	ledger := lifecycle.LedgerOf(in.obs.Host)
	if in.cycleCutting() {
		ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	}
	message = inventory.WithDetail("", message, ".")
	ledger.Claim.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed, Message: message, StartTime: in.now()}
	return Decision{Step: SaveLedger{Ledger: ledger}, Event: "Warning", Reason: reason, Message: message}
}

func handOverMarked(in *input) Decision {
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, in.claim.Quarantine.Message)
}

func handOverLost(*input) Decision {
	return delegateToOwner(infrav1.ReasonHostLost, "The IngotMachine of the Machine does not exist or has lost its host.")
}

// handOverAsked: the MachineHealthCheck considers the Machine unhealthy while it has the
// annotation, so that no power cycle helps. The host is not at fault.
func handOverAsked(*input) Decision {
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, "The Machine has the annotation "+clusterv1.RemediateMachineAnnotation+".")
}

func handOverForeign(in *input) Decision {
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, "Ingot cannot restart the infrastructure "+in.obs.Machine.Foreign+". Use a MachineHealthCheck without IngotRemediationTemplate.")
}

func handOverUnmanaged(in *input) Decision {
	return delegateToOwner(infrav1.ReasonUnmanaged, in.host()+" has no BMC in spec.bmc.")
}

func handOverAtOnce(*input) Decision {
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, "No power cycle is allowed, since spec.retryLimit is 0.")
}

// uncycled is why the power cycle failed, with the host's Ready condition.
func (in *input) uncycled() string {
	message := fmt.Sprintf("The BMC of %s did not cycle its power within %s", in.host(), in.timeout())
	if in.notToBeSwitched() {
		message = fmt.Sprintf("Ingot did not cycle the power of %s within %s", in.host(), in.timeout())
	}
	if ready := meta.FindStatusCondition(in.obs.Host.Status.Conditions, infrav1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		message += fmt.Sprintf(" (%s: %s)", ready.Reason, ready.Message)
	}
	return message
}

func quarantineUncycled(in *input) Decision {
	return in.quarantineAndReplace(infrav1.ReasonPowerCycleFailed, in.uncycled())
}

func handOverUncycled(in *input) Decision {
	return in.replace(infrav1.ReasonPowerCycleFailed, in.uncycled())
}

func quarantineExhausted(in *input) Decision {
	return in.quarantineAndReplace(infrav1.ReasonHealthFailed, fmt.Sprintf("IngotMachine %s stayed unhealthy after %d power cycles.",
		in.claim.MachineRef.Name, in.count()))
}

// Restarted is the condition that reports whether the host was restarted. The proof is a new
// boot ID of its Node, or else the power state that its BMC reported.
func Restarted(obs Observation) metav1.Condition {
	const name = infrav1.RemediationRestartedCondition
	if obs.Host == nil || obs.Host.Spec.Claim == nil || obs.Host.Spec.Claim.PowerCycle == nil {
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "No power cycle was requested.")
	}
	cycle := obs.Host.Spec.Claim.PowerCycle
	known := cycle.BootID != "" && obs.Node.BootID != ""
	switch {
	case known && cycle.BootID != obs.Node.BootID:
		return inventory.TrueCondition(name, infrav1.ReasonBootIDChanged, fmt.Sprintf("The Node has a new boot ID since power cycle %d.", cycle.Count))
	case lifecycle.IsPowerCycling(obs.Host.Spec.Claim):
		return inventory.FalseCondition(name, infrav1.ReasonPowerCycling, fmt.Sprintf("Power cycle %d is running.", cycle.Count))
	case known && obs.Node.Ready && cycle.ConfirmedOff != nil && *cycle.ConfirmedOff:
		return inventory.FalseCondition(name, infrav1.ReasonBootIDUnchanged, fmt.Sprintf("The BMC reports a power cycle of IngotHost %s, but the Node kept its boot ID. Check that spec.bmc.address is of this Node's server.", obs.Host.Name))
	case cycle.ConfirmedOff != nil && *cycle.ConfirmedOff:
		return inventory.TrueCondition(name, infrav1.ReasonPowerStateConfirmed, fmt.Sprintf("The BMC reported off, then on, in power cycle %d. The Node has no new boot ID yet.", cycle.Count))
	default:
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "The power cycle ended before the host was off.")
	}
}
