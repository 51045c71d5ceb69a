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

// This file is what a host's firmware should be like, and what was seen of it: the
// facts by which rules_preparation.go decides.

// LookInside reads settings and firmware from the BMC, as much as ReadingKey says,
// and asks Next again with what it found: a reading is part of the observation, made
// only when a decision needs it. Next does not ask for it twice.
type LookInside struct{}

// WriteSettings asks the BMC for settings, which take effect with the next boot, and
// forgets the reading. When Ledger is set it is saved first, by optimistic lock.
type WriteSettings struct {
	Settings map[string]string
	Ledger   *Ledger
}

// StartUpdate saves the ledger, in which the update is only asked for, by optimistic
// lock; lets the BMC install the component, by the delivery that the ledger's update
// says; and saves what came of it (Accepted, Pushed, Refused or Unsent of the ledger).
type StartUpdate struct {
	Ledger    Ledger
	Component infrav1.FirmwareComponent
}

// ResetBMC saves the ledger, then restarts the BMC: its task waits for that.
type ResetBMC struct {
	Ledger Ledger
}

func (LookInside) step()    {}
func (WriteSettings) step() {}
func (StartUpdate) step()   {}
func (ResetBMC) step()      {}

// SettingReading is one setting that is wanted, and what the BMC tells of it.
type SettingReading struct {
	Name, Wanted string
	// Value in force; Pending is the value of the next boot where that is another.
	Value, Pending string
	// InForce now; Next: the next boot will find it so.
	InForce, Next bool
}

// FirmwareReading is what the BMC told of settings and firmware.
type FirmwareReading struct {
	At time.Time
	// Key is the ReadingKey that it answers.
	Key string
	// Settings that are wanted, by name.
	Settings []SettingReading
	// Versions in force, by the component as it is wished for.
	Versions map[string]string
	// IDs are the BMC's own names of the components, by the component as it is wished for.
	IDs map[string]string
	// Ways by which the BMC takes images; told with Versions.
	Ways UpdateWays
	// RefusedReason and Refused say why what is wanted cannot be had from this BMC:
	// an unknown name, a value that does not fit, no such component.
	RefusedReason, Refused string
	// RefusedSince is when the readings in a row began that refuse; zero: a write did.
	RefusedSince time.Time
	// Tried: settings were written since the host was last switched; TryError is what
	// the BMC said to it.
	Tried    bool
	TryError string
}

// UpdateProgress is the state of a BMC's task.
type UpdateProgress string

// The states; empty: not known.
const (
	UpdateUnknown   UpdateProgress = ""
	UpdateRunning   UpdateProgress = "Running"
	UpdateSucceeded UpdateProgress = "Succeeded"
	UpdateFailed    UpdateProgress = "Failed"
	// UpdateWaits: the task goes on with a restart of the host or of the BMC.
	UpdateWaits UpdateProgress = "WaitsForReset"
	// UpdatePushing: the BMC is being sent the image, and asked nothing meanwhile.
	UpdatePushing UpdateProgress = "Pushing"
)

// UpdateTask is what the BMC tells of the update under way, or whoever pushes the image
// to it.
type UpdateTask struct {
	State   UpdateProgress
	Percent int // -1: not told
	Message string
}

// settings and firmware that a person wants.
func settingsOf(host *infrav1.IngotHost) map[string]string {
	if host.Spec.BIOS == nil {
		return nil
	}
	return host.Spec.BIOS.Settings
}

// UpdateOf is the update under way; nil: none.
func UpdateOf(host *infrav1.IngotHost) *infrav1.FirmwareUpdate {
	if host.Spec.Record == nil || host.Spec.Record.Preparation == nil {
		return nil
	}
	return host.Spec.Record.Preparation.Update
}

// WishesOf is the digest of the settings and firmware wanted; empty: nothing is.
func WishesOf(host *infrav1.IngotHost) string {
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

// LooksFor says what a reading of the host is to hold: the settings wanted, and the
// components whose versions are. Versions are read of hosts without an order only: an
// inventory of firmware can be a hundred requests, a boot is no reason for it.
func LooksFor(host *infrav1.IngotHost) (settings map[string]string, components []string) {
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

// ReadingKey names what a reading of the host is to answer; empty: nothing.
func ReadingKey(host *infrav1.IngotHost) string {
	settings, components := LooksFor(host)
	if len(settings) == 0 && len(components) == 0 {
		return ""
	}
	return WishesOf(host) + "/" + strings.Join(components, "/")
}

// MatchesComponent says whether the BMC's ID or name of a piece of firmware is the
// component: the ID's last segment, what LastingComponent makes of it, or the name, in
// any case.
func MatchesComponent(component, id, name string) bool {
	return strings.EqualFold(component, lastSegment(id)) || strings.EqualFold(component, LastingComponent(id)) || strings.EqualFold(component, name)
}

// LastingComponent names a piece of firmware by its ID so that it is the same after an
// update: the last segment; of Dell's, which have the version in it
// (Installed-<number>-<version>__<device>), the device.
func LastingComponent(id string) string {
	segment := lastSegment(id)
	if before, device, ok := strings.Cut(segment, "__"); ok && device != "" && strings.Count(before, "-") >= 2 {
		return device
	}
	return segment
}

func lastSegment(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// The conditions of the rules.

// caresForFirmware: there is something to look for.
func (in *input) caresForFirmware() bool { return ReadingKey(in.host) != "" }
func (in *input) updating() bool         { return UpdateOf(in.host) != nil }
func (in *input) wished() bool           { return WishesOf(in.host) != "" }

// preparation is the record's, if it speaks of the present wishes and is not over;
// else a new one, which knows whether something was lost. An update under way is always in it.
func (in *input) preparation() infrav1.HostPreparation {
	fresh := infrav1.HostPreparation{Wishes: WishesOf(in.host)}
	if in.record == nil || in.record.Preparation == nil {
		return fresh
	}
	known := *in.record.Preparation
	if known.Wishes == fresh.Wishes && known.Outcome == "" {
		return known
	}
	fresh.Update = known.Update
	if known.Wishes == fresh.Wishes && known.Outcome == infrav1.PreparationInForce {
		fresh.Losses = 1
		if in.obs.Now.Sub(known.At.Time) < in.policy.ReadingAge {
			fresh.Losses += known.Losses
		}
	}
	return fresh
}

// outcome of the present wishes; empty: none yet.
func (in *input) outcome() infrav1.PreparationOutcome { return preparedOf(in.host) }

func preparedOf(host *infrav1.IngotHost) infrav1.PreparationOutcome {
	record := host.Spec.Record
	if record == nil || record.Preparation == nil || record.Preparation.Wishes != WishesOf(host) {
		return ""
	}
	return record.Preparation.Outcome
}

func (in *input) givenUp() bool    { return in.wished() && in.outcome() == infrav1.PreparationFailed }
func (in *input) notGivenUp() bool { return !in.givenUp() }
func (in *input) settled() bool    { return in.outcome() == infrav1.PreparationInForce }
func (in *input) unsettled() bool  { return !in.settled() }

// preparationDue: there is something to do, or to find out, before the host is
// Available; what was given up is not tried again by itself.
func (in *input) preparationDue() bool { return preparationDue(in.host) }

func preparationDue(host *infrav1.IngotHost) bool {
	return UpdateOf(host) != nil || WishesOf(host) != "" && preparedOf(host) == ""
}

// notPrepared: the host must not be claimed for what is known of its firmware.
func (in *input) notPrepared() bool {
	return in.updating() || in.wished() && in.unsettled()
}

// resting: free, inspected, and nothing is due but perhaps its preparation.
func (in *input) resting() bool {
	return in.free() && in.order == nil && in.inspected() && !in.factsMissing() && !in.cleaningDue() && !in.inspectAsked()
}

// firmwareRests: the BMC did not let settings or firmware be read or written, and is
// not asked for them yet (I13). What else there is to do goes on meanwhile.
func (in *input) firmwareRests() bool { return in.obs.Now.Before(in.obs.FirmwareRetryAt) }

// readingStale: what is known does not answer the question, or is old, and may be read
// again. While not all is as wanted it ages faster, and faster still when an update tells
// no progress, or before a host is given up by what a reading refuses.
func (in *input) readingStale() bool {
	if in.firmwareRests() {
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

// readingOld: too old to begin an update, or give one up, by it (I17).
func (in *input) readingOld() bool {
	return in.obs.Now.Sub(in.reading().At) >= in.policy.UpdatePoll
}

func (in *input) reading() FirmwareReading {
	if in.obs.Firmware == nil || in.obs.Firmware.Key != ReadingKey(in.host) {
		return FirmwareReading{}
	}
	return *in.obs.Firmware
}

// refused: this BMC cannot be given what is wanted.
func (in *input) refused() bool    { return in.reading().Refused != "" }
func (in *input) notRefused() bool { return !in.refused() }

// refusedOnce: one reading refuses, and no later one has said the same yet. A BMC that has
// just started, or a server that has, may not know all that it has.
func (in *input) refusedOnce() bool {
	reading := in.reading()
	return in.refused() && !reading.RefusedSince.IsZero() && reading.At.Sub(reading.RefusedSince) < in.policy.UpdateRead
}

func (in *input) untried() bool { return !in.reading().Tried && !in.firmwareRests() }

// settingsMissing: the next boot will not find all that is wanted.
func (in *input) settingsMissing() bool {
	return slices.ContainsFunc(in.reading().Settings, func(s SettingReading) bool { return !s.Next })
}

func (in *input) settingsNotInForce() bool {
	return slices.ContainsFunc(in.reading().Settings, func(s SettingReading) bool { return !s.InForce })
}

// outdated is the first component whose version is not the one wanted.
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

// allInForce: the reading shows everything that is wanted, and that the next boot
// will not change it.
func (in *input) allInForce() bool {
	return in.reading().Key != "" && !in.refused() && !in.settingsMissing() && !in.settingsNotInForce() && !in.firmwareMissing()
}

func (in *input) notAllInForce() bool { return !in.allInForce() }

// attemptsSpent: boots, updates or writes have failed too often, or helped for too
// short a time.
func (in *input) attemptsSpent() bool {
	now := in.preparation()
	return now.Attempts >= in.policy.MaxAttempts || now.Losses >= in.policy.MaxAttempts
}
func (in *input) attemptsToSpend() bool {
	return !in.attemptsSpent()
}

// bootToCome: what is written now will be seen by a boot.
func (in *input) bootToCome() bool { return !in.resting() || in.attemptsToSpend() }

// atNextReboot: a person has asked for settings on hosts in use, too.
func (in *input) atNextReboot() bool {
	return in.host.Spec.BIOS != nil && in.host.Spec.BIOS.Apply == infrav1.BIOSAtNextReboot
}

// booted: the host has had the time to boot since it was last switched.
func (in *input) booted() bool {
	return !in.obs.Now.Before(in.obs.LastReset.Add(in.policy.AgentDeadline))
}

// The update under way.

// updateInForce: the BMC tells the version that the update installs.
func (in *input) updateInForce() bool {
	update := UpdateOf(in.host)
	version, ok := in.reading().Versions[update.Component]
	return ok && version == update.Version
}

// updateBusy: the update may be at work; the host is neither switched nor booted.
// When the BMC tells nothing of it, it is given time all the same, until the version
// shows (I17).
func (in *input) updateBusy() bool {
	update := UpdateOf(in.host)
	if update == nil || update.State == infrav1.UpdateRefused {
		return false
	}
	switch in.obs.Update.State {
	case UpdatePushing: // whoever pushes sees to its end
		return true
	case UpdateRunning:
		return in.obs.Now.Before(in.updateDeadline())
	case UpdateUnknown:
		return in.obs.Now.Before(in.silenceEnd()) && !(in.updateInForce() && in.versionIsProof())
	default:
		return false
	}
}

// versionIsProof: the version that shows is this update's doing. After a try that failed,
// and of an update whose push was cut off, it need not be: a try before, for wishes of
// before perhaps, may have come to its end late, and this one be at work.
func (in *input) versionIsProof() bool {
	known := in.record.Preparation
	return known.Attempts == 0 && known.Update.State != infrav1.UpdateCutOff
}

func (in *input) updateUntold() bool { return in.obs.Update.State == UpdateUnknown }

// updateFailed: the BMC says so.
func (in *input) updateFailed() bool {
	return UpdateOf(in.host).State == infrav1.UpdateRefused || in.obs.Update.State == UpdateFailed
}

// notBootedSince: no agent has run since the update began; its boot is the restart
// that firmware waits for.
func (in *input) notBootedSince() bool {
	return !in.record.InspectedAt.After(UpdateOf(in.host).StartedAt.Time)
}

// bmcNotReset: the task waits for a restart, the host's was not it, and the BMC's was
// not tried.
func (in *input) bmcNotReset() bool {
	return in.obs.Update.State == UpdateWaits && UpdateOf(in.host).BMCResetAt.IsZero()
}

// bmcRestarting: the BMC was restarted a moment ago.
func (in *input) bmcRestarting() bool {
	at := UpdateOf(in.host).BMCResetAt
	return !at.IsZero() && in.obs.Now.Before(at.Add(in.policy.UpdateRead))
}

func (in *input) updateDeadline() time.Time {
	return UpdateOf(in.host).StartedAt.Add(in.policy.UpdateDeadline)
}
func (in *input) silenceEnd() time.Time {
	return UpdateOf(in.host).StartedAt.Add(in.policy.UpdateSilence)
}
