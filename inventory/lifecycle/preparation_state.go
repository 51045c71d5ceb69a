// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the changes of the ledger and of the BMC that prepare a host.

// maxUpdateMessage is the limit of the schema for a BMC's message about an update.
const maxUpdateMessage = 512

// tryPreparationAgain drops the result of the preparation, but not a running update.
func (l *Ledger) tryPreparationAgain() {
	if l.Record == nil || l.Record.Preparation == nil {
		return
	}
	update := l.Record.Preparation.Update
	l.Record.Preparation = nil
	if update != nil {
		l.Record.Preparation = &infrav1.HostPreparation{Update: update}
	}
}

// prepare returns the ledger with a changed preparation.
func (in *input) prepare(change func(*infrav1.HostPreparation)) Ledger {
	ledger, next := in.ledger(), in.preparation()
	next.Update = next.Update.DeepCopy()
	change(&next)
	ledger.recorded().Preparation = &next
	return ledger
}

// preparingReason is the reason of steps about settings and firmware.
func (in *input) preparingReason() string {
	switch {
	case in.provisioned():
		return infrav1.ReasonProvisioned
	case in.ordered():
		return in.text().working
	default:
		return infrav1.ReasonPreparing
	}
}

func readFirmware(in *input) Decision {
	return Decision{Step: ReadFirmware{}, Reason: in.preparingReason(), Message: "Ingot reads settings and firmware from the BMC."}
}

func writeSettings(in *input) Decision {
	return Decision{
		Step: WriteSettings{Settings: maps.Clone(settingsOf(in.host))}, Event: "Normal", Reason: in.preparingReason(),
		Message: inventory.WithDetail("Ingot writes the settings of spec.bios to the BMC for the next boot: ", in.drift(), "."),
	}
}

// writeToProvisioned counts the write before it is made, because no boot by Ingot follows that
// would show its result.
func writeToProvisioned(in *input) Decision {
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Attempt++ })
	return Decision{
		Step: WriteSettings{Settings: maps.Clone(settingsOf(in.host)), Ledger: &ledger}, Reason: infrav1.ReasonProvisioned,
		Message: "Ingot writes the settings of spec.bios to the BMC, as spec.bios.apply requests. Reboot the host to apply them.",
	}
}

func recordPrepared(in *input) Decision {
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		*p = infrav1.HostPreparation{SettingsHash: p.SettingsHash, Outcome: infrav1.PreparationApplied, CompletionTime: in.now(), Reversions: p.Reversions}
	})
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: in.preparingReason(), Message: inForce}
}

func recordDrift(in *input) Decision {
	drift := in.drift()
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Message = inventory.ClipMessage(drift) })
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonPreparing, Detail: drift,
		Message: inventory.WithDetail("Settings or firmware changed: ", drift, ". Ingot applies the spec again.")}
}

// orderForSettings orders an inspection. Its boot applies the settings, and it shows their
// effect on the hardware.
func orderForSettings(in *input) Decision {
	drift := in.drift()
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Attempt++
		p.Message = inventory.ClipMessage(in.reading().TryError)
	})
	in.newOrder(&ledger, infrav1.OrderInspect, 1)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPreparing,
		Message: inventory.WithDetail("Settings take effect at a boot: ", drift,
			fmt.Sprintf(". Ingot boots the agent, attempt %d of %d.", ledger.Record.Preparation.Attempt, in.policy.MaxAttempts))}
}

func giveUpRefused(in *input) Decision {
	reading := in.reading()
	return in.fail(reading.RefusedReason, reading.Refused)
}

// giveUp reports the BMC's last error and the remaining drift after all attempts.
func giveUp(in *input) Decision {
	reason, message := infrav1.ReasonSettingsNotApplied, in.drift()
	if wish, missing := in.outdated(); missing {
		reason = infrav1.ReasonFirmwareUpdateFailed
		message = fmt.Sprintf("%s is at version %s, not %s", wish.Component, in.reading().Versions[wish.Component], wish.Version)
	}
	if losses := in.preparation().Reversions; losses >= in.policy.MaxAttempts {
		message += fmt.Sprintf(" (reverted %d times in a day)", losses)
	} else {
		message += fmt.Sprintf(" after %d attempts", in.preparation().Attempt)
	}
	last := in.preparation().Message
	decision := in.fail(reason, cmp.Or(last, message))
	if last != "" { // the condition has room for the cause only
		decision.Detail = last + "; " + message
	}
	return decision
}

func (in *input) fail(reason, message string) Decision {
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Outcome, p.CompletionTime, p.Reason, p.Message = infrav1.PreparationFailed, in.now(), reason, inventory.ClipMessage(message)
	})
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: reason, Detail: message,
		Message: inventory.WithDetail("Not prepared: ", message, in.tryAgain())}
}

// Updates.

func startUpdate(in *input) Decision {
	wish, _ := in.outdated()
	delivery, _ := in.delivery()
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Update = &infrav1.FirmwareUpdate{
			Component: wish.Component, Version: wish.Version, StartTime: in.now(), State: infrav1.UpdateRequested, Delivery: delivery,
		}
	})
	return Decision{
		Step: StartUpdate{Ledger: ledger, Component: wish}, Event: "Normal", Reason: infrav1.ReasonUpdatingFirmware,
		Message: inventory.WithDetail("Ingot updates ", fmt.Sprintf("%s from version %s to %s", wish.Component, in.reading().Versions[wish.Component], wish.Version),
			fmt.Sprintf(", attempt %d of %d.", in.preparation().Attempt+1, in.policy.MaxAttempts)),
	}
}

// Accepted returns the ledger after the BMC accepted the update. taskID may be empty.
func (s StartUpdate) Accepted(taskID string) Ledger {
	return s.with(func(p *infrav1.HostPreparation) { p.Update.State, p.Update.TaskID = infrav1.UpdateAccepted, taskID })
}

// Pushed returns the ledger after the BMC accepted the pushed image at a time.
func (s StartUpdate) Pushed(taskID string, at time.Time) Ledger {
	return s.with(func(p *infrav1.HostPreparation) {
		p.Update.State, p.Update.TaskID, p.Update.StartTime = infrav1.UpdateAccepted, taskID, metav1.NewTime(at)
	})
}

// Delivery returns how the image gets to the BMC.
func (s StartUpdate) Delivery() infrav1.UpdateDelivery {
	return s.Ledger.Record.Preparation.Update.Delivery
}

// Refused returns the ledger after the BMC refused the update.
func (s StartUpdate) Refused(why string) Ledger {
	return s.with(func(p *infrav1.HostPreparation) {
		p.Update.State, p.Update.Message = infrav1.UpdateRejected, inventory.Truncate(why, maxUpdateMessage)
	})
}

// Unsent returns the ledger if the BMC certainly did not get the request.
func (s StartUpdate) Unsent() Ledger {
	return s.with(func(p *infrav1.HostPreparation) { p.Update = nil })
}

func (s StartUpdate) with(change func(*infrav1.HostPreparation)) Ledger {
	out := s.Ledger.copy()
	change(out.Record.Preparation)
	return out
}

func orderForUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.ledger()
	in.newOrder(&ledger, infrav1.OrderInspect, 1)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonUpdatingFirmware,
		Message: inventory.WithDetail("The update of ", update.Component+" to version "+update.Version, " needs a boot. Ingot boots the agent.")}
}

func resetBMC(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Update.BMCResetTime = in.now() })
	return Decision{Step: ResetBMC{Ledger: ledger}, Event: "Normal", Reason: infrav1.ReasonUpdatingFirmware,
		Message: inventory.WithDetail("The update of ", update.Component, " still waits for a restart after the host booted. Ingot restarts the BMC.")}
}

func concludeUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Update, p.Attempt, p.Reason, p.Message = nil, 0, "", "" })
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPreparing,
		Message: inventory.WithDetail("Updated ", update.Component+" to version "+update.Version, ".")}
}

// failUpdate counts the failure. The version in force then decides whether Ingot retries.
func failUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	failure := in.updateFailure()
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Update, p.Reason, p.Message = nil, infrav1.ReasonFirmwareUpdateFailed, inventory.ClipMessage(failure)
		p.Attempt++
	})
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonFirmwareUpdateFailed, Detail: failure,
		Message: inventory.WithDetail(fmt.Sprintf("The update of %s to %s failed: ", inventory.Truncate(update.Component, 40), inventory.Truncate(update.Version, 40)), failure, ".")}
}

// updateFailure is why the update ended, with the BMC's message if there is one.
func (in *input) updateFailure() string {
	update, task := UpdateOf(in.host), in.obs.Update
	switch {
	case update.State == infrav1.UpdateRejected:
		return "the BMC refused it: " + update.Message
	case task.State == UpdateFailed:
		return task.Message
	case task.State == UpdateRunning:
		return fmt.Sprintf("it is still running after %s: %s", in.policy.UpdateDeadline, task.Message)
	case task.State == UpdateWaitsForReset:
		return "it still waits for a restart after the host and the BMC restarted: " + task.Message
	default:
		return "the BMC reports another version after the boot"
	}
}
