// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the steps that switch the power or wait, and their messages. A message holds
// no time that moves while nothing happens, so that a host at rest costs no write.

// explain returns why Ingot powers a host off: a reason and a sentence.
type explain func(*input) (reason, message string)

func (e explain) cut(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: PowerOff{}, Event: "Normal", Reason: reason, Message: message + " Ingot cuts the power."}
}

// cutAfterShutdown cuts the power after a shutdown that took too long or that the BMC refused
// to request.
func (e explain) cutAfterShutdown(in *input) Decision {
	decision := e.cut(in)
	decision.ShutsDown = true
	if !in.softAsked() {
		decision.Event = "Warning"
		decision.Message += fmt.Sprintf(" The BMC has refused a graceful shutdown for %s.", in.policy.SoftPowerOff)
	}
	return decision
}

func (e explain) shutDown(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: PowerOff{Graceful: true}, Event: "Normal", Reason: reason, ShutsDown: true,
		Message: fmt.Sprintf("%s Ingot asks the system to shut down, and cuts the power after %s.", message, in.policy.SoftPowerOff)}
}

func (e explain) waitForShutdown(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: Wait{Until: in.lookForOffAt()}, Reason: reason, ShutsDown: true,
		Message: fmt.Sprintf("%s The system is shutting down. Ingot cuts the power at %s.", message, inventory.FormatTime(in.cutAt()))}
}

// idle does nothing until something changes or the next poll.
func idle(reason, message string) Decision {
	return Decision{Step: Idle{}, Reason: reason, Message: message}
}

// warn is idle with a warning event.
func warn(reason, message string) Decision {
	return Decision{Step: Idle{}, Event: "Warning", Reason: reason, Message: message}
}

// retry waits for the next try, with a warning event.
func (in *input) retry(reason, message string) Decision {
	return Decision{Step: Wait{Until: in.retryAt()}, Event: "Warning", Reason: reason, Message: message}
}

// Reasons for powering off.

func sayDeletingOff(*input) (string, string) {
	return infrav1.ReasonDeleting, "The host is being deleted while the agent may run on it."
}

func sayProvisioningOff(*input) (string, string) {
	return infrav1.ReasonProvisioning, "The host is on, but an install starts from power-off."
}

func sayMisfit(in *input) (string, string) {
	switch {
	case in.foreign():
		return infrav1.ReasonInProgress, fmt.Sprintf("Another management cluster started this %s.", in.text().noun)
	case in.releasing():
		return infrav1.ReasonFencing, "The Machine was deleted while the agent worked."
	case in.misplaced():
		return infrav1.ReasonInProgress, "The host boots on a network or by a NIC that spec.networkRef and spec.bootMACAddress no longer name."
	}
	return infrav1.ReasonInProgress, fmt.Sprintf("The %s is no longer needed.", in.text().noun)
}

func sayEnded(in *input) (string, string) {
	if in.revoked() {
		return infrav1.ReasonAgentKeyConflict, "Two agents used the same token, so Ingot trusts neither."
	}
	if result := in.order.Result; result.Outcome == infrav1.OrderFailed {
		return infrav1.ReasonInProgress, fmt.Sprintf("The %s failed (%s).", in.text().noun, result.Reason)
	}
	return infrav1.ReasonInProgress, fmt.Sprintf("The agent has finished the %s.", in.text().noun)
}

func sayWantedOff(*input) (string, string) {
	return infrav1.ReasonPoweredOff, "Power-off is requested by spec.power."
}

func sayFencing(in *input) (string, string) {
	return infrav1.ReasonFencing, fmt.Sprintf("IngotMachine %s releases the host.", in.claim.MachineRef.Name)
}

func sayFencedOn(*input) (string, string) {
	return infrav1.ReasonFencing, "The host came on after Ingot had powered it off for its release."
}

func sayNotFenced(*input) (string, string) {
	return infrav1.ReasonNotFenced, "The host was released by force and is on."
}

func sayWorkDue(in *input) (string, string) {
	return infrav1.ReasonInProgress, fmt.Sprintf("Ingot has to %s the host, which starts from power-off.", orderTexts[in.wanted()].verb)
}

func sayApproved(in *input) (string, string) {
	return infrav1.ReasonInProgress, "The takeover of the running server was approved by " + inventory.Truncate(in.giver(infrav1.ApproveAnnotation), 63) + "."
}

// Steps.

func forget(*input) Decision {
	return Decision{Step: RemoveFinalizer{}, Event: "Normal", Reason: infrav1.ReasonDeleting, Message: "Ingot removes the host object and leaves the server as it is."}
}

func powerOn(*input) Decision {
	return Decision{Step: PowerOn{}, Event: "Normal", Reason: infrav1.ReasonInProgress, Message: "Ingot powers the host on, as spec.power requests."}
}

func restart(in *input) Decision {
	c, _ := inventory.PendingCommand(in.host, infrav1.RebootAnnotation)
	graceful := !slices.Contains(c.Arguments, inventory.RebootForced)
	message := "An operator requested a reboot. Ingot cuts the power and powers the host on again."
	if graceful {
		message = "An operator requested a reboot. Ingot asks the system to restart."
	}
	return Decision{Step: Restart{Graceful: graceful}, Event: "Normal", Reason: infrav1.ReasonProvisioned, Message: message}
}

func recordAddress(*input) Decision {
	return Decision{Step: RecordAddress{}, Reason: infrav1.ReasonInProgress, Message: "Ingot assigns an address to the boot NIC before it powers the host on."}
}

func bootAgent(in *input) Decision {
	return Decision{Step: BootAgent{}, Event: "Normal", Reason: in.text().working,
		Message: fmt.Sprintf("Ingot boots the agent to %s the host, attempt %d.", in.text().verb, in.order.Attempt)}
}

// Waits.

func waitInterval(in *input) Decision {
	return Decision{Step: Wait{Until: in.switchableAt()}, Reason: infrav1.ReasonWaiting,
		Message: fmt.Sprintf("Ingot changed the power a moment ago. It continues at %s.", inventory.FormatTime(in.switchableAt()))}
}

// waitToAsk is waitInterval before a request to shut down, or after one that was refused.
func waitToAsk(in *input) Decision {
	decision := waitInterval(in)
	decision.ShutsDown = true
	return decision
}

func waitDoubted(in *input) Decision {
	return Decision{Step: Wait{Until: in.switchableAt()}, Reason: infrav1.ReasonWaiting,
		Message: fmt.Sprintf("The BMC reports off, but Ingot changed the power a moment ago. It checks again at %s.", inventory.FormatTime(in.switchableAt()))}
}

func waitOffAgain(in *input) Decision {
	return Decision{Step: Wait{Until: in.obs.Now.Add(in.policy.ResetInterval)}, Reason: in.text().working,
		Message: "The BMC reports off after the start of a live system. Ingot checks again before it relies on that."}
}

func waitAgentActive(in *input) Decision {
	until := in.obs.LastContact.Add(in.policy.ResetInterval)
	return Decision{Step: Wait{Until: until}, Reason: in.text().working,
		Message: "The BMC reports off, but the agent was active a moment ago. Ingot checks again."}
}

func waitAgent(in *input) Decision {
	return Decision{Step: Wait{Until: in.silentAt()}, Reason: in.text().working, Message: in.agentMessage()}
}

// waitAgentAgain restarts the deadline, because the time of the boot is unknown.
func waitAgentAgain(in *input) Decision {
	return Decision{Step: Wait{Until: in.obs.Now.Add(in.policy.AgentDeadline)}, RecordContact: true,
		Reason: in.text().working, Message: in.agentMessage()}
}

func (in *input) agentMessage() string {
	doing := "The agent is starting, for " + in.text().gerund
	if in.contacted() {
		doing = "The agent is " + in.text().gerund
	}
	message := fmt.Sprintf("%s the host, attempt %d. Ingot powers the host off after %s without a message from it.",
		doing, in.order.Attempt, in.policy.AgentDeadline)
	if in.wantedOff() { // cutting the agent off would leave a disk half written or half wiped
		message += " It finishes its work before the power-off of spec.power."
	}
	return message
}

func waitMachine(in *input) Decision {
	return in.retry(infrav1.ReasonWaiting, fmt.Sprintf("Ingot cannot read whether IngotMachine %s exists. It retries, and starts nothing until then.", in.claim.MachineRef.Name))
}

func sayPowerUnknown(in *input) Decision {
	return in.retry(infrav1.ReasonBMCError, "The BMC answers but reports no power state. Ingot retries, and powers nothing on or off. If this lasts, reset the BMC.")
}

// withoutEffect names the command annotations that have no effect at present. Without that,
// Ingot would seem to ignore them. It omits commands that were carried out.
func (in *input) withoutEffect(decision Decision) string {
	if save, ok := decision.Step.(SaveLedger); ok && len(save.RemoveAnnotations) > 0 {
		return ""
	}
	var names []string
	for _, a := range []struct {
		name       string
		applicable bool
	}{
		{infrav1.ForceReleaseAnnotation, in.deleting() || in.releasing() && in.notFenced()},
		{infrav1.ReleaseAnnotation, in.held() && in.machineMissing()},
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
			names = append(names, a.name+" (invalid value)")
		case pending && (!a.applicable || in.refusedByTime(c) != "" && a.name != infrav1.RetryBMCAnnotation):
			names = append(names, a.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " No effect now: annotation " + inventory.ListSome(names, 1) + "."
}
