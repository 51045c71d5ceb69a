// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file has the desired and the present settings and firmware of a host, and the predicates
// on them for rules_preparation.go.

// ReadFirmware reads the settings and firmware of RequiredReading from the BMC and calls Next again. The
// reading is the part of the observation that is only made when a decision needs it. Next does
// not request it twice.
type ReadFirmware struct{}

// WriteSettings writes settings to the BMC for the next boot, and drops the reading. If Ledger
// is set, the caller saves it first, with an optimistic lock.
type WriteSettings struct {
	Settings map[string]string
	Ledger   *Ledger
}

// StartUpdate saves the ledger, in which the update is requested, with an optimistic lock. Then
// the BMC installs the component, by the delivery in the ledger's update. The caller saves the
// result (Accepted, Pushed, Refused or Unsent).
type StartUpdate struct {
	Ledger    Ledger
	Component infrav1.FirmwareComponent
}

// ResetBMC saves the ledger, then restarts the BMC, for which the update waits.
type ResetBMC struct {
	Ledger Ledger
}

func (ReadFirmware) step()  {}
func (WriteSettings) step() {}
func (StartUpdate) step()   {}
func (ResetBMC) step()      {}

// SettingReading is a desired setting and its state in the BMC.
type SettingReading struct {
	Name, Wanted string
	// Value in force. Pending is the value after the next boot, if it differs.
	Value, Pending string
	// InForce: the desired value is in force. Next: it is in force after the next boot.
	InForce, Next bool
}

// FirmwareReading is a reading of settings and firmware from the BMC.
type FirmwareReading struct {
	At time.Time
	// Key is the ReadingKey for which it was made.
	Key string
	// Settings that are desired, sorted by name.
	Settings []SettingReading
	// Versions in force, by the component of spec.firmware.
	Versions map[string]string
	// IDs are the BMC's names of the components, by the component of spec.firmware.
	IDs map[string]string
	// Ways by which the BMC takes images. Read with Versions.
	Ways UpdateWays
	// RefusedReason and Refused are why the BMC cannot apply the spec: an unknown setting, a
	// value that does not fit, or a missing component. Refused starts in lower case.
	RefusedReason, Refused string
	// RefusedSince is the first of the readings in a row that refuse. Zero: a write did.
	RefusedSince time.Time
	// Tried: settings were written since the last power action. TryError is the BMC's error.
	Tried    bool
	TryError string
}

// UpdateProgress is the state of an update's task in the BMC.
type UpdateProgress string

// The states. Empty: not known.
const (
	UpdateUnknown   UpdateProgress = ""
	UpdateRunning   UpdateProgress = "Running"
	UpdateSucceeded UpdateProgress = "Succeeded"
	UpdateFailed    UpdateProgress = "Failed"
	// UpdateWaitsForReset: the task continues after a restart of the host or of the BMC.
	UpdateWaitsForReset UpdateProgress = "WaitsForReset"
	// UpdatePushing: Ingot is sending the image to the BMC, and sends no other request.
	UpdatePushing UpdateProgress = "Pushing"
)

// UpdateTask is the progress of an update, from the BMC or from the transfer of the image.
type UpdateTask struct {
	State   UpdateProgress
	Percent int // -1: not known
	Message string
}

// settingsOf returns the desired BIOS settings.
func settingsOf(host *infrav1.IngotHost) map[string]string {
	if host.Spec.BIOS == nil {
		return nil
	}
	return host.Spec.BIOS.Settings
}

// UpdateOf returns the running update. Nil: none.
func UpdateOf(host *infrav1.IngotHost) *infrav1.FirmwareUpdate {
	if host.Spec.Record == nil || host.Spec.Record.Preparation == nil {
		return nil
	}
	return host.Spec.Record.Preparation.Update
}

// DesiredDigest returns a digest of the desired settings and firmware. Empty: there are none.
func DesiredDigest(host *infrav1.IngotHost) string {
	settings, firmware := settingsOf(host), host.Spec.Firmware
	if len(settings) == 0 && len(firmware) == 0 {
		return ""
	}
	text, err := json.Marshal([]any{settings, firmware}) // maps are sorted
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// RequiredReading returns what a reading of the host must have: the desired settings, and the
// components with a desired version. Versions are only read without an order, because a
// firmware inventory can take a hundred requests.
func RequiredReading(host *infrav1.IngotHost) (settings map[string]string, components []string) {
	claim := host.Spec.Claim
	if host.Spec.Order == nil && (claim == nil || claim.State == infrav1.ClaimProvisioned) {
		for _, wish := range host.Spec.Firmware {
			components = append(components, wish.Component)
		}
	}
	if update := UpdateOf(host); update != nil && !slices.Contains(components, update.Component) {
		components = append(components, update.Component)
	}
	return settingsOf(host), components
}

// ReadingKey identifies what a reading of the host must have. Empty: nothing.
func ReadingKey(host *infrav1.IngotHost) string {
	settings, components := RequiredReading(host)
	if len(settings) == 0 && len(components) == 0 {
		return ""
	}
	return DesiredDigest(host) + "/" + strings.Join(components, "/")
}

// MatchesComponent reports whether a firmware item of the BMC is the component: by the last
// segment of its ID, by StableComponentName or by its name. Case does not matter.
func MatchesComponent(component, id, name string) bool {
	return strings.EqualFold(component, lastSegment(id)) || strings.EqualFold(component, StableComponentName(id)) || strings.EqualFold(component, name)
}

// StableComponentName returns a name for a firmware item that survives updates: the last segment
// of its ID. Dell's IDs have the version in it (Installed-<number>-<version>__<device>), so
// theirs is the device.
func StableComponentName(id string) string {
	segment := lastSegment(id)
	if before, device, ok := strings.Cut(segment, "__"); ok && device != "" && strings.Count(before, "-") >= 2 {
		return device
	}
	return segment
}

func lastSegment(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// The conditions of the rules.

func (in *input) hasFirmwareToRead() bool { return ReadingKey(in.host) != "" }
func (in *input) updating() bool          { return UpdateOf(in.host) != nil }
func (in *input) hasDesired() bool        { return DesiredDigest(in.host) != "" }

// preparation returns the record's preparation if it is for the present spec and has no
// outcome. Otherwise it returns a new one, which counts the loss of settings that were in
// force. Both have the running update.
func (in *input) preparation() infrav1.HostPreparation {
	fresh := infrav1.HostPreparation{SettingsHash: DesiredDigest(in.host)}
	if in.record == nil || in.record.Preparation == nil {
		return fresh
	}
	known := *in.record.Preparation
	if known.SettingsHash == fresh.SettingsHash && known.Outcome == "" {
		return known
	}
	fresh.Update = known.Update
	if known.SettingsHash == fresh.SettingsHash && known.Outcome == infrav1.PreparationApplied {
		fresh.Reversions = 1
		if in.obs.Now.Sub(known.CompletionTime.Time) < in.policy.ReadingAge {
			fresh.Reversions += known.Reversions
		}
	}
	return fresh
}

// outcome of the preparation for the present spec. Empty: none yet.
func (in *input) outcome() infrav1.PreparationOutcome { return preparedOf(in.host) }

func preparedOf(host *infrav1.IngotHost) infrav1.PreparationOutcome {
	record := host.Spec.Record
	if record == nil || record.Preparation == nil || record.Preparation.SettingsHash != DesiredDigest(host) {
		return ""
	}
	return record.Preparation.Outcome
}

func (in *input) givenUp() bool    { return in.hasDesired() && in.outcome() == infrav1.PreparationFailed }
func (in *input) notGivenUp() bool { return !in.givenUp() }
func (in *input) settled() bool    { return in.outcome() == infrav1.PreparationApplied }
func (in *input) unsettled() bool  { return !in.settled() }

// preparationDue reports whether Ingot must prepare the host before it is Available. A failed
// preparation is not retried without a request.
func (in *input) preparationDue() bool { return preparationDue(in.host) }

func preparationDue(host *infrav1.IngotHost) bool {
	return UpdateOf(host) != nil || DesiredDigest(host) != "" && preparedOf(host) == ""
}

// notPrepared reports whether the state of the firmware forbids a claim.
func (in *input) notPrepared() bool {
	return in.updating() || in.hasDesired() && in.unsettled()
}

// idleExceptPreparation reports whether the host is free and inspected, and nothing is due but
// perhaps its preparation.
func (in *input) idleExceptPreparation() bool {
	return in.free() && in.order == nil && in.inspected() && !in.factsMissing() && !in.cleaningDue() && !in.inspectAsked()
}

// firmwareDeferred reports whether a failed call about settings or firmware may not be repeated
// yet (I13). Other work continues.
func (in *input) firmwareDeferred() bool { return in.obs.Now.Before(in.obs.FirmwareRetryAt) }

// readingStale reports whether the reading is missing, incomplete or old, and may be repeated.
// It ages faster if it differs from the spec, and fastest during an update or before Ingot
// gives up because a reading refuses.
func (in *input) readingStale() bool {
	if in.firmwareDeferred() {
		return false
	}
	reading := in.obs.Firmware
	if reading == nil || reading.Key != ReadingKey(in.host) {
		return true
	}
	age := in.policy.ReadingAge
	switch {
	case in.updating(), in.refusedOnce() && in.notGivenUp():
		age = in.policy.UpdateRead
	case !in.allInForce():
		age = in.policy.DriftAge
	}
	return in.obs.Now.Sub(reading.At) >= age
}

// readingOld reports whether the reading is too old to start an update or to fail one (I17).
func (in *input) readingOld() bool {
	return in.obs.Now.Sub(in.reading().At) >= in.policy.UpdatePoll
}

func (in *input) reading() FirmwareReading {
	if in.obs.Firmware == nil || in.obs.Firmware.Key != ReadingKey(in.host) {
		return FirmwareReading{}
	}
	return *in.obs.Firmware
}

// refused reports whether the BMC cannot apply the spec.
func (in *input) refused() bool    { return in.reading().Refused != "" }
func (in *input) notRefused() bool { return !in.refused() }

// refusedOnce reports whether no later reading has confirmed the refusal. A BMC or server that
// has just started may not list everything it has.
func (in *input) refusedOnce() bool {
	reading := in.reading()
	return in.refused() && !reading.RefusedSince.IsZero() && reading.At.Sub(reading.RefusedSince) < in.policy.UpdateRead
}

func (in *input) untried() bool { return !in.reading().Tried && !in.firmwareDeferred() }

// settingsMissing reports whether a desired setting will not be in force after the next boot.
func (in *input) settingsMissing() bool {
	return slices.ContainsFunc(in.reading().Settings, func(s SettingReading) bool { return !s.Next })
}

func (in *input) settingsNotInForce() bool {
	return slices.ContainsFunc(in.reading().Settings, func(s SettingReading) bool { return !s.InForce })
}

// outdated returns the first component whose version differs from the desired one.
func (in *input) outdated() (infrav1.FirmwareComponent, bool) {
	reading := in.reading()
	for _, wish := range in.host.Spec.Firmware {
		if have, ok := reading.Versions[wish.Component]; ok && have != wish.Version {
			return wish, true
		}
	}
	return infrav1.FirmwareComponent{}, false
}

func (in *input) firmwareMissing() bool {
	_, missing := in.outdated()
	return missing
}

// allInForce reports whether the reading matches the spec, now and after the next boot.
func (in *input) allInForce() bool {
	return in.reading().Key != "" && !in.refused() && !in.settingsMissing() && !in.settingsNotInForce() && !in.firmwareMissing()
}

func (in *input) notAllInForce() bool { return !in.allInForce() }

// attemptsSpent reports whether boots, updates or writes failed too often, or their effect was
// lost too often.
func (in *input) attemptsSpent() bool {
	now := in.preparation()
	return now.Attempt >= in.policy.MaxAttempts || now.Reversions >= in.policy.MaxAttempts
}
func (in *input) attemptsToSpend() bool { return !in.attemptsSpent() }

// bootToCome reports whether a boot will apply the settings that are written now.
func (in *input) bootToCome() bool { return !in.idleExceptPreparation() || in.attemptsToSpend() }

// atNextReboot reports whether spec.bios.apply requests settings on a host in use.
func (in *input) atNextReboot() bool {
	return in.host.Spec.BIOS != nil && in.host.Spec.BIOS.Apply == infrav1.BIOSAtNextReboot
}

// booted reports whether the host has had time to boot since the last power action.
func (in *input) booted() bool {
	return !in.obs.Now.Before(in.obs.LastReset.Add(in.policy.AgentDeadline))
}

// The running update.

// updateInForce reports whether the BMC reports the version that the update installs.
func (in *input) updateInForce() bool {
	update := UpdateOf(in.host)
	version, ok := in.reading().Versions[update.Component]
	return ok && version == update.Version
}

// updateBusy reports whether the update may be running, so that Ingot leaves the power alone.
// Without progress reports it gets time until the version appears (I17).
func (in *input) updateBusy() bool {
	update := UpdateOf(in.host)
	if update == nil || update.State == infrav1.UpdateRejected {
		return false
	}
	switch in.obs.Update.State {
	case UpdatePushing: // the transfer has its own deadline
		return true
	case UpdateRunning:
		return in.obs.Now.Before(in.updateDeadline())
	case UpdateUnknown:
		return in.obs.Now.Before(in.silenceEnd()) && !(in.updateInForce() && in.versionIsProof())
	default:
		return false
	}
}

// versionIsProof reports whether the version proves the end of this update. After a failed
// attempt or an interrupted transfer it does not: an earlier attempt may have ended late, while
// this one still runs.
func (in *input) versionIsProof() bool {
	known := in.record.Preparation
	return known.Attempt == 0 && known.Update.State != infrav1.UpdateInterrupted
}

func (in *input) updateUntold() bool { return in.obs.Update.State == UpdateUnknown }

// updateFailed reports whether the BMC refused or failed the update.
func (in *input) updateFailed() bool {
	return UpdateOf(in.host).State == infrav1.UpdateRejected || in.obs.Update.State == UpdateFailed
}

// notBootedSince reports whether no agent has run since the update began. Its boot is the
// restart for which firmware waits.
func (in *input) notBootedSince() bool {
	return !in.record.InspectedTime.After(UpdateOf(in.host).StartTime.Time)
}

// bmcNotReset reports whether the task still waits for a restart and Ingot has not yet
// restarted the BMC.
func (in *input) bmcNotReset() bool {
	return in.obs.Update.State == UpdateWaitsForReset && UpdateOf(in.host).BMCResetTime.IsZero()
}

// bmcRestarting reports whether Ingot restarted the BMC a moment ago.
func (in *input) bmcRestarting() bool {
	at := UpdateOf(in.host).BMCResetTime
	return !at.IsZero() && in.obs.Now.Before(at.Add(in.policy.UpdateRead))
}

func (in *input) updateDeadline() time.Time {
	return UpdateOf(in.host).StartTime.Add(in.policy.UpdateDeadline)
}
func (in *input) silenceEnd() time.Time {
	return UpdateOf(in.host).StartTime.Add(in.policy.UpdateSilence)
}
