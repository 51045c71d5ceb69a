// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file is what people are told of settings and firmware.

const (
	inForce = "the settings and firmware wanted are in force"
	// maxDrift bounds how many settings a message lists.
	maxDrift = 8
)

// tryAgain is the remedy for whatever was given up. A host in use is not inspected, and
// does not hear that it should be.
func (in *input) tryAgain() string {
	if in.held() {
		return "; correct spec.bios or spec.firmware, or delete the Machine to have the host prepared"
	}
	return "; correct spec.bios or spec.firmware, or set the annotation " + inventory.CommandText(infrav1.InspectAnnotation) + " to have it tried again"
}

// firmwareProblem is what the BMC says to calls about settings and firmware.
func (in *input) firmwareProblem() string {
	if in.obs.FirmwareSlow {
		return "the BMC is being asked for its settings and firmware: " + in.obs.FirmwareProblem + "; Ingot asks for the rest in a moment"
	}
	return "the BMC does not let settings and firmware be read or written: " + in.obs.FirmwareProblem +
		"; Ingot tries again at growing intervals of at most 5 minutes, and at once when spec.bios, spec.firmware, spec.bmc or its Secret changes; may the BMC's user do that?"
}

func waitFirmware(in *input) Decision {
	return Decision{Step: Wait{Until: in.obs.FirmwareRetryAt}, Event: "Warning", Reason: infrav1.ReasonPreparing, Message: in.firmwareProblem()}
}

// waitRefused is before a host is given up by what its BMC did not show.
func waitRefused(in *input) Decision {
	until := in.reading().At.Add(in.policy.UpdateRead)
	return Decision{Step: Wait{Until: until}, Reason: infrav1.ReasonPreparing,
		Message: fmt.Sprintf("%s; where the BMC has only just started that may pass: Ingot reads once more at %s, and gives the host up if it is the same then%s",
			in.reading().Refused, inventory.FormatTime(until), in.tryAgain())}
}

// drift lists what is not as wanted: the setting, the value in force, the one wanted.
func (in *input) drift() string {
	var all []string
	for _, s := range in.reading().Settings {
		switch {
		case s.InForce && s.Next:
		case s.InForce:
			all = append(all, fmt.Sprintf("%s is %q as wanted, but the next boot makes it %q", s.Name, s.Value, s.Pending))
		case s.Next:
			all = append(all, fmt.Sprintf("%s is %q, wanted %q, which the next boot brings", s.Name, s.Value, s.Wanted))
		default:
			all = append(all, fmt.Sprintf("%s is %q, wanted %q", s.Name, s.Value, s.Wanted))
		}
	}
	reading := in.reading()
	for _, wish := range in.host.Spec.Firmware {
		if have, ok := reading.Versions[wish.Component]; ok && have != wish.Version {
			all = append(all, fmt.Sprintf("%s is at version %q, wanted %q", wish.Component, have, wish.Version))
		}
	}
	return strings.ReplaceAll(inventory.ListSome(all, maxDrift), "\n", " ")
}

func waitUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	if in.obs.Update.State == UpdatePushing {
		return Decision{Step: Wait{Until: in.obs.Now.Add(in.policy.UpdatePoll)}, Reason: infrav1.ReasonUpdatingFirmware,
			Message: fmt.Sprintf("Ingot pushes the image of version %s of %s to the BMC%s, asks the BMC nothing else meanwhile, and neither switches nor boots the host",
				update.Version, update.Component, in.updatePercent())}
	}
	end, how := in.silenceEnd(), "the BMC tells nothing of its progress"
	switch {
	case in.obs.Update.State == UpdateRunning:
		end, how = in.updateDeadline(), "the BMC says that it is running"+in.updatePercent()
	case in.updateInForce(): // and that is no proof
		how = "the BMC shows that version, perhaps by a try before this one, and tells nothing of this one, which may be at work yet"
	}
	until := in.obs.Now.Add(in.policy.UpdatePoll)
	if end.Before(until) {
		until = end
	}
	return Decision{Step: Wait{Until: until}, Reason: infrav1.ReasonUpdatingFirmware,
		Message: fmt.Sprintf("version %s of %s is being installed; %s; Ingot waits until %s at most and neither switches nor boots the host meanwhile",
			update.Version, update.Component, how, inventory.FormatTime(end))}
}

// updatePercent is how far the update is, where that is told.
func (in *input) updatePercent() string {
	if in.obs.Update.Percent < 0 {
		return ""
	}
	return fmt.Sprintf(", %d %%", in.obs.Update.Percent)
}

func waitBMC(in *input) Decision {
	until := UpdateOf(in.host).BMCResetAt.Add(in.policy.UpdateRead)
	return Decision{Step: Wait{Until: until}, Reason: infrav1.ReasonUpdatingFirmware,
		Message: fmt.Sprintf("the BMC was restarted for the update of %s; Ingot looks at %s what has become of it", UpdateOf(in.host).Component, inventory.FormatTime(until))}
}

// waitBooted: until a host in use has booted, its BMC tells what was before.
func waitBooted(in *input) Decision {
	decision := sayProvisioned(in)
	decision.Step = Wait{Until: in.obs.LastReset.Add(in.policy.AgentDeadline)}
	return decision
}

func sayGivenUp(in *input) Decision {
	known := in.record.Preparation
	return warn(known.Reason, known.Message+in.tryAgain())
}

// prepared is the condition of that name.
func (in *input) prepared(decision Decision) metav1.Condition {
	const name = infrav1.HostPreparedCondition
	switch {
	case in.updating():
		return inventory.FalseCondition(name, infrav1.ReasonUpdatingFirmware, in.updateMessage(decision))
	case !in.wished():
		return inventory.UnknownCondition(name, infrav1.ReasonNotApplicable, "spec.bios and spec.firmware ask for nothing")
	case in.givenUp() && !in.provisioned():
		return inventory.FalseCondition(name, in.record.Preparation.Reason, in.record.Preparation.Message+in.tryAgain())
	case in.firmwareRests():
		reason := infrav1.ReasonBMCError
		if in.obs.FirmwareSlow {
			reason = infrav1.ReasonBMCBusy
		}
		return inventory.UnknownCondition(name, reason, in.firmwareProblem())
	case in.reading().Key == "" && in.settled():
		return inventory.TrueCondition(name, infrav1.ReasonPrepared, inForce)
	case in.reading().Key == "" && in.provisioned():
		return inventory.UnknownCondition(name, infrav1.ReasonWaiting, "not read from the BMC yet, for other wishes or since the host was switched")
	case in.reading().Key == "":
		return inventory.FalseCondition(name, infrav1.ReasonPreparing, decision.Message)
	case in.refused():
		return inventory.FalseCondition(name, in.reading().RefusedReason, in.reading().Refused+in.tryAgain())
	case in.allInForce() && (in.settled() || in.provisioned()):
		return inventory.TrueCondition(name, infrav1.ReasonPrepared, inForce)
	case in.allInForce():
		return inventory.FalseCondition(name, infrav1.ReasonPreparing, decision.Message)
	default:
		return inventory.FalseCondition(name, in.driftReason(), in.drift()+in.driftRemedy())
	}
}

func (in *input) updateMessage(decision Decision) string {
	if decision.Reason == infrav1.ReasonUpdatingFirmware {
		return decision.Message
	}
	update := UpdateOf(in.host)
	return fmt.Sprintf("version %s of %s is being installed", update.Version, update.Component)
}

func (in *input) driftReason() string {
	switch {
	case !in.held():
		return infrav1.ReasonPreparing
	case in.firmwareMissing():
		return infrav1.ReasonFirmwareNotInForce
	case in.settingsMissing():
		return infrav1.ReasonSettingsNotInForce
	default:
		return infrav1.ReasonRebootPending
	}
}

// driftRemedy says what happens next, and what a person can do.
func (in *input) driftRemedy() string {
	switch {
	case !in.held():
		return "; Ingot prepares the host before it is Available"
	case in.firmwareMissing():
		return "; Ingot installs firmware on free hosts only: delete the Machine to have the host prepared"
	case in.settingsMissing() && in.reading().TryError != "":
		return "; the BMC did not take it: " + in.reading().TryError
	case in.settingsMissing() && in.atNextReboot():
		return fmt.Sprintf("; Ingot has asked the BMC %d times", in.preparation().Attempts) + in.tryAgain()
	case in.settingsMissing():
		return "; a host in use is left as it is: set spec.bios.apply to AtNextReboot to have it written now, or delete the Machine to have the host prepared"
	default:
		return "; reboot the host when it suits you"
	}
}
