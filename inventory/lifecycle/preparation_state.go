// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file is every change of the ledger, and of the BMC, that the preparation of a
// host makes.

// maxUpdateMessage is the schema's bound on what a BMC said of an update.
const maxUpdateMessage = 512

// tryPreparationAgain forgets how the preparation went, but never an update that is
// under way.
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

// prepared is the ledger with the preparation changed.
func (in *input) prepare(change func(*infrav1.HostPreparation)) Ledger {
	ledger, next := in.ledger(), in.preparation()
	next.Update = next.Update.DeepCopy()
	change(&next)
	ledger.recorded().Preparation = &next
	return ledger
}

// preparingReason is the reason while something is done to a host's firmware.
func (in *input) preparingReason() string {
	switch {
	case in.provisioned():
		return infrav1.ReasonProvisioned
	case in.ordered():
		return workReason(in.order.Kind)
	default:
		return infrav1.ReasonPreparing
	}
}

func lookInside(in *input) Decision {
	return Decision{Step: LookInside{}, Reason: in.preparingReason(), Message: "Ingot reads settings and firmware from the BMC"}
}

func writeSettings(in *input) Decision {
	return Decision{
		Step: WriteSettings{Settings: maps.Clone(settingsOf(in.host))}, Event: "Normal", Reason: in.preparingReason(),
		Message: "Ingot writes the settings of spec.bios to the BMC; they take effect with the next boot: " + in.drift(),
	}
}

// writeToProvisioned counts the write before it is made: no boot of Ingot's shows
// whether it helped.
func writeToProvisioned(in *input) Decision {
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Attempts++ })
	return Decision{
		Step: WriteSettings{Settings: maps.Clone(settingsOf(in.host)), Ledger: &ledger}, Reason: infrav1.ReasonProvisioned,
		Message: "Ingot writes the settings of spec.bios, as spec.bios.apply asks; they take effect when somebody reboots the host",
	}
}

func settle(in *input) Decision {
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		*p = infrav1.HostPreparation{Wishes: p.Wishes, Outcome: infrav1.PreparationInForce, At: in.now(), Losses: p.Losses}
	})
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: in.preparingReason(), Message: "the BMC tells that " + inForce}
}

func unsettle(in *input) Decision {
	drift := in.drift()
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Message = inventory.ClipMessage(drift) })
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonPreparing,
		Message: "settings or firmware are no more as wanted, and the host is prepared again: " + drift}
}

// orderForSettings has the agent booted: that boot puts settings in force, and the
// inspection shows what they made of the hardware.
func orderForSettings(in *input) Decision {
	drift := in.drift()
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Attempts++
		p.Message = inventory.ClipMessage(in.reading().TryError)
	})
	in.mint(&ledger, infrav1.OrderInspect, 1)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPreparing,
		Message: fmt.Sprintf("settings wait for a boot, attempt %d of %d; Ingot boots the agent next: %s", ledger.Record.Preparation.Attempts, in.policy.MaxAttempts, drift)}
}

func giveUpRefused(in *input) Decision {
	reading := in.reading()
	return in.fail(reading.RefusedReason, reading.Refused)
}

// giveUp tells what is not in force after all attempts, with the BMC's last words.
func giveUp(in *input) Decision {
	reason, message := infrav1.ReasonSettingsNotInForce, in.drift()
	if wish, missing := in.outdated(); missing {
		reason = infrav1.ReasonFirmwareUpdateFailed
		message = fmt.Sprintf("%s is at version %s, wanted %s", wish.Component, in.reading().Versions[wish.Component], wish.Version)
	}
	tries := fmt.Sprintf("given up after %d attempts: ", in.preparation().Attempts)
	if losses := in.preparation().Losses; losses >= in.policy.MaxAttempts {
		tries = fmt.Sprintf("given up, since what was in force was lost again %d times within a day: ", losses)
	}
	message = tries + message
	if last := in.preparation().Message; last != "" {
		message += "; the last attempt: " + last
	}
	return in.fail(reason, message)
}

func (in *input) fail(reason, message string) Decision {
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Outcome, p.At, p.Reason, p.Message = infrav1.PreparationFailed, in.now(), reason, inventory.ClipMessage(message)
	})
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: reason, Message: message + in.tryAgain()}
}

// Updates.

func startUpdate(in *input) Decision {
	wish, _ := in.outdated()
	delivery, _ := in.delivery()
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Update = &infrav1.FirmwareUpdate{
			Component: wish.Component, Version: wish.Version, StartedAt: in.now(), State: infrav1.UpdateAsked, Delivery: delivery,
		}
	})
	return Decision{
		Step: StartUpdate{Ledger: ledger, Component: wish}, Event: "Normal", Reason: infrav1.ReasonUpdatingFirmware,
		Message: fmt.Sprintf("Ingot has the BMC install version %s of %s, in place of %s, attempt %d of %d",
			wish.Version, wish.Component, in.reading().Versions[wish.Component], in.preparation().Attempts+1, in.policy.MaxAttempts),
	}
}

// Accepted is the ledger when the BMC has taken the update; taskID may be empty.
func (s StartUpdate) Accepted(taskID string) Ledger {
	return s.with(func(p *infrav1.HostPreparation) { p.Update.State, p.Update.TaskID = infrav1.UpdateAccepted, taskID })
}

// Pushed is the ledger when the BMC has taken the image that was pushed, at a moment.
func (s StartUpdate) Pushed(taskID string, at time.Time) Ledger {
	return s.with(func(p *infrav1.HostPreparation) {
		p.Update.State, p.Update.TaskID, p.Update.StartedAt = infrav1.UpdateAccepted, taskID, metav1.NewTime(at)
	})
}

// Delivery is how the image comes to the BMC.
func (s StartUpdate) Delivery() infrav1.UpdateDelivery {
	return s.Ledger.Record.Preparation.Update.Delivery
}

// Refused is the ledger when the BMC has refused it.
func (s StartUpdate) Refused(why string) Ledger {
	return s.with(func(p *infrav1.HostPreparation) {
		p.Update.State, p.Update.Message = infrav1.UpdateRefused, inventory.Truncate(why, maxUpdateMessage)
	})
}

// Unsent is the ledger when the BMC surely never heard of it.
func (s StartUpdate) Unsent() Ledger {
	return s.with(func(p *infrav1.HostPreparation) { p.Update = nil })
}

func (s StartUpdate) with(change func(*infrav1.HostPreparation)) Ledger {
	out := Ledger{Claim: s.Ledger.Claim.DeepCopy(), Record: s.Ledger.Record.DeepCopy(), Order: s.Ledger.Order.DeepCopy(), Commands: copyCommands(s.Ledger.Commands)}
	change(out.Record.Preparation)
	return out
}

func orderForUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.ledger()
	in.mint(&ledger, infrav1.OrderInspect, 1)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonUpdatingFirmware,
		Message: fmt.Sprintf("version %s of %s waits for a boot; Ingot boots the agent next", update.Version, update.Component)}
}

func resetBMC(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Update.BMCResetAt = in.now() })
	return Decision{Step: ResetBMC{Ledger: ledger}, Event: "Normal", Reason: infrav1.ReasonUpdatingFirmware,
		Message: fmt.Sprintf("the update of %s still waits for a restart after a boot of the host; Ingot restarts the BMC", update.Component)}
}

func concludeUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.prepare(func(p *infrav1.HostPreparation) { p.Update, p.Attempts, p.Reason, p.Message = nil, 0, "", "" })
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPreparing,
		Message: fmt.Sprintf("the BMC tells version %s of %s", update.Version, update.Component)}
}

// failUpdate counts the failure; the version that is in force then says whether there
// is anything to try again.
func failUpdate(in *input) Decision {
	update := UpdateOf(in.host)
	message := inventory.ClipMessage(fmt.Sprintf("the update of %s to %s: %s", update.Component, update.Version, in.updateFailure()))
	ledger := in.prepare(func(p *infrav1.HostPreparation) {
		p.Update, p.Reason, p.Message = nil, infrav1.ReasonFirmwareUpdateFailed, message
		p.Attempts++
	})
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonFirmwareUpdateFailed, Message: message}
}

// updateFailure is why the update is over, in the BMC's words where it has some.
func (in *input) updateFailure() string {
	update, task := UpdateOf(in.host), in.obs.Update
	switch {
	case update.State == infrav1.UpdateRefused:
		return "refused: " + update.Message
	case task.State == UpdateFailed:
		return "failed: " + task.Message
	case task.State == UpdateRunning:
		return fmt.Sprintf("the BMC says after %s that it is still running (%s)", in.policy.UpdateDeadline, task.Message)
	case task.State == UpdateWaits:
		return "it still waits for a restart, after one of the host and one of the BMC: " + task.Message
	default:
		return "the BMC tells another version after the boot"
	}
}
