// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the messages about BIOS settings and firmware.

const (
	inForce = "Settings and firmware match the spec."
	// maxDrift is how many differences a message lists.
	maxDrift = 3
)

// tryAgain is the remedy after Ingot stopped trying. A host in use ignores a request to
// inspect it.
func (in *input) tryAgain() string {
	if in.held() {
		return ". Correct the spec, or delete the Machine to prepare the host."
	}
	return ". Correct the spec, or annotate " + inventory.CommandText(infrav1.InspectAnnotation) + "."
}

// firmwareProblem is how calls about settings and firmware failed.
func (in *input) firmwareProblem() string {
	if in.obs.FirmwareSlow {
		return inventory.WithDetail("Ingot is still reading settings and firmware from the BMC: ", in.obs.FirmwareProblem, ". It reads the rest in a moment.")
	}
	return inventory.WithDetail("The BMC refuses access to settings or firmware: ", in.obs.FirmwareProblem,
		". Ingot retries within 5 minutes. Check the privileges of the BMC's user.")
}

func waitFirmware(in *input) Decision {
	return Decision{Step: Wait{Until: in.obs.FirmwareRetryAt}, Event: "Warning", Reason: infrav1.ReasonPreparing,
		Message: in.firmwareProblem(), Detail: in.obs.FirmwareProblem}
}

// waitRefused waits for a second reading before Ingot gives up.
func waitRefused(in *input) Decision {
	until := in.reading().At.Add(in.policy.UpdateRead)
	return Decision{Step: Wait{Until: until}, Reason: infrav1.ReasonPreparing, Detail: in.reading().Refused,
		Message: inventory.WithDetail("Not prepared: ", in.reading().Refused,
			fmt.Sprintf(". Ingot reads the BMC again at %s, then gives up. Check spec.bios and spec.firmware.", inventory.FormatTime(until)))}
}

// drift lists the differences between the BMC and the spec: the value in force, then the
// desired one.
func (in *input) drift() string {
	var all []string
	for _, s := range in.reading().Settings {
		switch {
		case s.InForce && s.Next:
		case s.InForce:
			all = append(all, fmt.Sprintf("%s is %q as desired, but the next boot makes it %q", s.Name, s.Value, s.Pending))
		case s.Next:
			all = append(all, fmt.Sprintf("%s is %q until the next boot, then %q", s.Name, s.Value, s.Wanted))
		default:
			all = append(all, fmt.Sprintf("%s is %q, not %q", s.Name, s.Value, s.Wanted))
		}
	}
	versions := in.reading().Versions
	for _, wish := range in.host.Spec.Firmware {
		if have, ok := versions[wish.Component]; ok && have != wish.Version {
			all = append(all, fmt.Sprintf("%s is at version %q, not %q", wish.Component, have, wish.Version))
		}
	}
	return inventory.ListSome(all, maxDrift)
}

func waitUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	if in.obs.Update.State == UpdatePushing {
		return Decision{Step: Wait{Until: in.obs.Now.Add(in.policy.UpdatePoll)}, Reason: infrav1.ReasonUpdatingFirmware,
			Message: inventory.WithDetail("Ingot is sending ", update.Component+" version "+update.Version,
				" to the BMC"+in.updatePercent()+". Until then it sends no other request, and leaves the power alone.")}
	}
	end, how := in.silenceEnd(), "The BMC reports no progress"
	switch {
	case in.obs.Update.State == UpdateRunning:
		end, how = in.updateDeadline(), "The update is running"+in.updatePercent()
	case in.updateInForce(): // which does not prove that the update has ended
		how = "The BMC reports this version, but the update may still run"
	}
	until := in.obs.Now.Add(in.policy.UpdatePoll)
	if end.Before(until) {
		until = end
	}
	return Decision{Step: Wait{Until: until}, Reason: infrav1.ReasonUpdatingFirmware,
		Message: inventory.WithDetail("Updating ", update.Component+" to version "+update.Version,
			fmt.Sprintf(". %s. Ingot waits until %s at most, and leaves the power alone.", how, inventory.FormatTime(end)))}
}

// updatePercent is the progress of the update, if it is known.
func (in *input) updatePercent() string {
	if in.obs.Update.Percent < 0 {
		return ""
	}
	return fmt.Sprintf(", %d %%", in.obs.Update.Percent)
}

func waitBMC(in *input) Decision {
	until := UpdateOf(in.host).BMCResetTime.Add(in.policy.UpdateRead)
	return Decision{Step: Wait{Until: until}, Reason: infrav1.ReasonUpdatingFirmware,
		Message: inventory.WithDetail("Ingot restarted the BMC for the update of ", UpdateOf(in.host).Component,
			fmt.Sprintf(". It checks the result at %s.", inventory.FormatTime(until)))}
}

// waitBooted waits until a host in use has booted: until then its BMC reports the old values.
func waitBooted(in *input) Decision {
	decision := sayProvisioned(in)
	decision.Step = Wait{Until: in.obs.LastReset.Add(in.policy.AgentDeadline)}
	return decision
}

// givenUpMessage is why Ingot stopped preparing the host.
func (in *input) givenUpMessage() string {
	return inventory.WithDetail("Not prepared: ", in.record.Preparation.Message, in.tryAgain())
}

func sayGivenUp(in *input) Decision {
	return warn(in.record.Preparation.Reason, in.givenUpMessage())
}

// prepared is the condition Prepared.
func (in *input) prepared(decision Decision) metav1.Condition {
	const name = infrav1.HostPreparedCondition
	switch {
	case in.updating():
		return inventory.FalseCondition(name, infrav1.ReasonUpdatingFirmware, in.updateMessage(decision))
	case !in.hasDesired():
		return inventory.UnknownCondition(name, infrav1.ReasonNotApplicable, "The host has neither spec.bios nor spec.firmware.")
	case in.givenUp() && !in.provisioned():
		return inventory.FalseCondition(name, in.record.Preparation.Reason, in.givenUpMessage())
	case in.firmwareDeferred():
		reason := infrav1.ReasonBMCError
		if in.obs.FirmwareSlow {
			reason = infrav1.ReasonBMCBusy
		}
		return inventory.UnknownCondition(name, reason, in.firmwareProblem())
	case in.reading().Key == "" && in.settled():
		return inventory.TrueCondition(name, infrav1.ReasonPrepared, inForce)
	case in.reading().Key == "" && in.provisioned():
		return inventory.UnknownCondition(name, infrav1.ReasonWaiting, "Ingot has not read the BMC since the spec or the power changed.")
	case in.reading().Key == "":
		return inventory.FalseCondition(name, infrav1.ReasonPreparing, decision.Message)
	case in.refused():
		return inventory.FalseCondition(name, in.reading().RefusedReason, inventory.WithDetail("Not prepared: ", in.reading().Refused, in.tryAgain()))
	case in.allInForce() && (in.settled() || in.provisioned()):
		return inventory.TrueCondition(name, infrav1.ReasonPrepared, inForce)
	case in.allInForce():
		return inventory.FalseCondition(name, infrav1.ReasonPreparing, decision.Message)
	default:
		return inventory.FalseCondition(name, in.driftReason(), inventory.WithDetail("The BMC differs from the spec: ", in.drift(), in.driftRemedy()))
	}
}

func (in *input) updateMessage(decision Decision) string {
	if decision.Reason == infrav1.ReasonUpdatingFirmware {
		return decision.Message
	}
	update := UpdateOf(in.host)
	return inventory.WithDetail("Updating ", update.Component+" to version "+update.Version, ".")
}

func (in *input) driftReason() string {
	switch {
	case !in.held():
		return infrav1.ReasonPreparing
	case in.firmwareMissing():
		return infrav1.ReasonFirmwareNotApplied
	case in.settingsMissing():
		return infrav1.ReasonSettingsNotApplied
	default:
		return infrav1.ReasonRebootPending
	}
}

// driftRemedy is what Ingot does next about the drift, and what the operator can do.
func (in *input) driftRemedy() string {
	switch {
	case !in.held():
		return ". Ingot corrects this before the host becomes Available."
	case in.firmwareMissing():
		return ". Ingot updates free hosts only: delete the Machine to update this one."
	case in.settingsMissing() && in.reading().TryError != "":
		return ". The BMC refused the change: " + inventory.Truncate(in.reading().TryError, 64) + "."
	case in.settingsMissing() && in.atNextReboot():
		return fmt.Sprintf(". Ingot has written it %d times", in.preparation().Attempt) + in.tryAgain()
	case in.settingsMissing():
		return ". To write it now, set spec.bios.apply to AtNextReboot. Or delete the Machine to prepare the host."
	default:
		return ". Reboot the host to apply it."
	}
}
