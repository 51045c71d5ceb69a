// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file is what people are told and the steps that change no ledger. Messages
// hold no time that moves while nothing happens: a host that is well costs no
// write to the API server.

// explain says why a host is switched: a reason, and what happened.
type explain func(*input) (reason, message string)

func (e explain) cut(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: PowerOff{}, Event: "Normal", Reason: reason, Message: message + "; Ingot cuts the power now"}
}

// cutWarned cuts the power of a host whose system was asked to shut down, or could not be.
func (e explain) cutWarned(in *input) Decision {
	decision := e.cut(in)
	decision.ShutsDown = true
	if !in.softAsked() {
		decision.Event = "Warning"
		decision.Message += fmt.Sprintf(": for %s and longer the BMC has refused to ask its system to shut down", in.policy.SoftPowerOff)
	}
	return decision
}

func (e explain) ask(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: PowerOff{Graceful: true}, Event: "Normal", Reason: reason, ShutsDown: true,
		Message: fmt.Sprintf("%s; Ingot asks its system to shut down and cuts the power after %s", message, in.policy.SoftPowerOff)}
}

func (e explain) wait(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: Wait{Until: in.lookForOffAt()}, Reason: reason, ShutsDown: true,
		Message: fmt.Sprintf("%s; its system was asked to shut down, Ingot cuts the power at %s", message, inventory.FormatTime(in.cutAt()))}
}

// idle, and wait until somebody looks again, with something to tell.
func idle(reason, message string) Decision {
	return Decision{Step: Idle{}, Reason: reason, Message: message}
}

func warn(reason, message string) Decision {
	return Decision{Step: Idle{}, Event: "Warning", Reason: reason, Message: message}
}

func (in *input) again(reason, message string) Decision {
	return Decision{Step: Wait{Until: in.retryAt()}, Event: "Warning", Reason: reason, Message: message}
}

// Reasons for switching off.

func sayDeletingOff(*input) (string, string) {
	return infrav1.ReasonDeleting, "the host is being deleted while Ingot's agent may run on it"
}
func sayProvisioningOff(*input) (string, string) {
	return infrav1.ReasonProvisioning, "the claimed host is on, and an install starts from a host that is off"
}
func sayMisfit(in *input) (string, string) {
	if in.foreign() {
		return infrav1.ReasonInProgress, fmt.Sprintf("the order to %s was begun by another management cluster", verb(in.order.Kind))
	}
	if in.releasing() {
		return infrav1.ReasonFencing, "the machine was deleted while the agent worked"
	}
	if in.misplaced() {
		return infrav1.ReasonInProgress, fmt.Sprintf("no agent has spoken, and the order to %s is of a boot on IngotNetwork %s by %s, which the spec no longer names",
			verb(in.order.Kind), in.order.NetworkName, in.order.BootMACAddress)
	}
	return infrav1.ReasonInProgress, fmt.Sprintf("the order to %s no longer holds", verb(in.order.Kind))
}
func sayEnded(in *input) (string, string) {
	if in.revoked() {
		return infrav1.ReasonAgentKeyConflict, "two agents came with the same token, so neither is trusted"
	}
	if result := in.order.Result; result.Outcome == infrav1.OrderFailed {
		return infrav1.ReasonInProgress, fmt.Sprintf("the order to %s has failed (%s)", verb(in.order.Kind), result.Reason)
	}
	return infrav1.ReasonInProgress, fmt.Sprintf("the agent has reported the end of its order to %s", verb(in.order.Kind))
}
func sayWantedOff(*input) (string, string) {
	return infrav1.ReasonPoweredOff, "spec.power asks for Off"
}
func sayFencing(in *input) (string, string) {
	return infrav1.ReasonFencing, fmt.Sprintf("IngotMachine %s releases the host", in.claim.MachineRef.Name)
}
func sayFencedOn(*input) (string, string) {
	return infrav1.ReasonFencing, "the host was switched on after it was fenced"
}
func sayNotFenced(*input) (string, string) {
	return infrav1.ReasonNotFenced, "the host was released by force and is on"
}
func sayWorkDue(in *input) (string, string) {
	return infrav1.ReasonInProgress, fmt.Sprintf("Ingot has to %s the host, from a host that is off", verb(in.wanted()))
}
func sayApproved(in *input) (string, string) {
	return infrav1.ReasonInProgress, "the host was found on, and " + in.giver(infrav1.ApproveAnnotation) + " approved that Ingot takes it over"
}

// Steps.

func forget(*input) Decision {
	return Decision{Step: Forget{}, Event: "Normal", Reason: infrav1.ReasonDeleting, Message: "the host is let go; its server is left as it is"}
}

func powerOn(*input) Decision {
	return Decision{Step: PowerOn{}, Event: "Normal", Reason: infrav1.ReasonInProgress, Message: "spec.power asks for On; Ingot switches the host on"}
}

func restart(in *input) Decision {
	c, _ := inventory.PendingCommand(in.host, infrav1.RebootAnnotation)
	graceful := !slices.Contains(c.Arguments, inventory.RebootForced)
	message := "a person asked for a reboot; Ingot cuts the power and switches the host on again"
	if graceful {
		message = "a person asked for a reboot; Ingot asks the system to restart"
	}
	return Decision{Step: Restart{Graceful: graceful}, Event: "Normal", Reason: infrav1.ReasonProvisioned, Message: message}
}

func recordAddress(*input) Decision {
	return Decision{Step: RecordAddress{}, Reason: infrav1.ReasonInProgress, Message: "Ingot records an address for the boot NIC before it switches the host on"}
}

func bootAgent(in *input) Decision {
	return Decision{Step: BootAgent{}, Event: "Normal", Reason: workReason(in.order.Kind),
		Message: fmt.Sprintf("Ingot boots the agent from the network to %s, attempt %d", verb(in.order.Kind), in.order.Attempt)}
}

// Waits.

func waitInterval(in *input) Decision {
	return Decision{Step: Wait{Until: in.switchableAt()}, Reason: infrav1.ReasonWaiting,
		Message: fmt.Sprintf("the host was switched a moment ago; Ingot goes on at %s", inventory.FormatTime(in.switchableAt()))}
}

// waitToAsk is waitInterval before a request to shut down, or after one that was refused.
func waitToAsk(in *input) Decision {
	decision := waitInterval(in)
	decision.ShutsDown = true
	return decision
}

func waitDoubted(in *input) Decision {
	return Decision{Step: Wait{Until: in.switchableAt()}, Reason: infrav1.ReasonWaiting,
		Message: fmt.Sprintf("the BMC says off, but the host was switched a moment ago; Ingot asks again at %s and believes it then", inventory.FormatTime(in.switchableAt()))}
}

func waitOffAgain(in *input) Decision {
	return Decision{Step: Wait{Until: in.obs.Now.Add(in.policy.ResetInterval)}, Reason: workReason(in.order.Kind),
		Message: "the BMC says off, and a live system was started on the host; Ingot asks again and believes it then"}
}

func waitSpeaking(in *input) Decision {
	until := in.obs.LastContact.Add(in.policy.ResetInterval)
	return Decision{Step: Wait{Until: until}, Reason: workReason(in.order.Kind),
		Message: "the BMC says off, but the agent has just spoken; Ingot asks again"}
}

func waitAgent(in *input) Decision {
	return Decision{Step: Wait{Until: in.silentAt()}, Reason: workReason(in.order.Kind), Message: in.awaited()}
}

// waitAgentAgain starts the deadline anew: when the host was booted is not known.
func waitAgentAgain(in *input) Decision {
	return Decision{Step: Wait{Until: in.obs.Now.Add(in.policy.AgentDeadline)}, RecordContact: true,
		Reason: workReason(in.order.Kind), Message: in.awaited()}
}

func (in *input) awaited() string {
	who := "the agent is starting"
	if in.contacted() {
		who = "the agent is at work"
	}
	message := fmt.Sprintf("%s to %s, attempt %d; Ingot switches the host off when nothing is heard for %s",
		who, verb(in.order.Kind), in.order.Attempt, in.policy.AgentDeadline)
	if in.wantedOff() { // cutting the agent off would leave a disk half written, or half wiped
		message += "; spec.power asks for Off: the agent ends its work first, then the host is off"
	}
	return message
}

func waitMachine(in *input) Decision {
	return in.again(infrav1.ReasonWaiting, fmt.Sprintf("whether IngotMachine %s exists is not known just now; Ingot asks again and starts nothing before", in.claim.MachineRef.Name))
}

func sayPowerUnknown(in *input) Decision {
	return in.again(infrav1.ReasonBMCError, "the BMC answers but does not tell the power state; Ingot asks again and switches nothing before; if it stays so, reset the BMC")
}

// unheard names the command annotations that have no effect as things stand: silence would
// look like a defect. Nothing is said of a command that was carried out.
func (in *input) unheard(decision Decision) string {
	if save, ok := decision.Step.(SaveLedger); ok && len(save.RemoveAnnotations) > 0 {
		return ""
	}
	var unheard []string
	for _, a := range []struct {
		name  string
		heard bool
	}{
		{infrav1.ForceReleaseAnnotation, in.deleting() || in.releasing() && in.notFenced()},
		{infrav1.ReleaseDanglingAnnotation, in.held() && in.machineMissing()},
		{infrav1.ClearQuarantineAnnotation, in.clearable()},
		{infrav1.ApproveAnnotation, in.free()},
		{infrav1.InspectAnnotation, in.free()},
		{infrav1.RebootAnnotation, true},
		{infrav1.RotateCredentialsAnnotation, true},
		{infrav1.RetryBMCAnnotation, true},
	} {
		value, found := in.host.Annotations[a.name]
		c, pending := inventory.PendingCommand(in.host, a.name)
		_, malformed := inventory.ParseCommand(a.name, value)
		switch {
		case found && malformed != nil:
			unheard = append(unheard, a.name+", whose value is no command")
		case pending && (!a.heard || in.refusedByTime(c) != "" && a.name != infrav1.RetryBMCAnnotation):
			unheard = append(unheard, a.name)
		}
	}
	if len(unheard) == 0 {
		return ""
	}
	return " (without effect as things stand: annotation " + strings.Join(unheard, ", ") + ")"
}
