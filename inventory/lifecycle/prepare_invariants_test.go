// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"reflect"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// checkFirmware verifies a step about settings or firmware.
func (w *world) checkFirmware(host *infrav1.IngotHost, obs Observation, d Decision) {
	w.checkSwitchDuringUpdate(host, obs, d)
	switch step := d.Step.(type) {
	case ReadFirmware:
		w.checkLook(host, obs, d)
	case WriteSettings:
		w.checkWrite(host, obs, step, d.Rule)
	case StartUpdate:
		w.checkStart(host, obs, step)
		if host == w.host {
			w.checkLedger(obs, step.Ledger)
		}
	case ResetBMC:
		update := UpdateOf(host)
		if update == nil || obs.Update.State != UpdateWaitsForReset || !update.BMCResetTime.IsZero() || obs.Power != infrav1.PowerStateOff ||
			!host.Spec.Record.InspectedTime.After(update.StartTime.Time) {
			w.violate("the BMC is restarted without need, or too early")
		}
	case Idle:
		c, unread := host.Spec.Claim, obs.Firmware == nil || obs.Firmware.Key != ReadingKey(host)
		if d.Reason == infrav1.ReasonProvisioned && c != nil && ReadingKey(host) != "" && unread && !w.closedTo(obs) {
			w.violate("%s: nobody comes back to look at the settings of a host in use", d.Rule)
		}
	case Wait:
		if c := host.Spec.Claim; d.Reason == infrav1.ReasonPreparing && (c != nil || host.Spec.Order != nil) {
			w.violate("%s: work waits for settings", d.Rule)
		}
		fresh := obs.Firmware != nil && obs.Now.Sub(obs.Firmware.At) < walkPolicy().UpdateRead
		if d.Reason == infrav1.ReasonUpdatingFirmware && obs.Update.State == UpdateUnknown && !fresh && !w.closedTo(obs) && !w.deleting && UpdateOf(host) != nil && UpdateOf(host).BMCResetTime.IsZero() {
			w.violate("an update tells nothing, and nobody looks whether the version shows")
		}
	}
}

// closedTo reports whether a call about settings or firmware failed a moment ago.
func (w *world) closedTo(obs Observation) bool { return obs.Now.Before(obs.FirmwareRetryAt) }

// atWork restates when an update may be running.
func (w *world) atWork(host *infrav1.IngotHost, obs Observation) bool {
	update := UpdateOf(host)
	if update == nil || update.State == infrav1.UpdateRejected {
		return false
	}
	age := obs.Now.Sub(update.StartTime.Time)
	switch {
	case host == w.host && w.fw.pushing != nil:
		return true
	case obs.Update.State == UpdateRunning, host == w.host && obs.BMC == BMCOK && w.fw.task == "running" && w.fw.told != "" && w.fw.told == update.TaskID:
		return age < walkPolicy().UpdateDeadline
	case host == w.host && update.Delivery == infrav1.DeliveryPush: // its start is unknown
		age = min(age, obs.Now.Sub(w.fw.since))
	}
	return obs.Update.State == UpdateUnknown && age < walkPolicy().UpdateSilence && w.fw.task == "running"
}

// notesCutOff reports whether a ledger differs from the host's at most in an interrupted push.
func notesCutOff(host *infrav1.IngotHost, l Ledger) bool {
	was, is := UpdateOf(host), preparationOf(l).Update
	return was != nil && is != nil && is.State == infrav1.UpdateInterrupted && reflect.DeepEqual(host.Spec.Order, l.Order) &&
		reflect.DeepEqual(host.Spec.Claim, l.Claim)
}

func (w *world) checkSwitchDuringUpdate(host *infrav1.IngotHost, obs Observation, d Decision) {
	if host != w.host || !w.atWork(host, obs) {
		return
	}
	switch step := d.Step.(type) {
	case PowerOff, PowerOn, Restart, BootAgent, ResetBMC, StartUpdate, WriteSettings:
		w.violate("%s does %T while the BMC writes firmware", d.Rule, d.Step)
	case SaveLedger:
		if step.Ledger.Order != nil && host.Spec.Order == nil {
			w.violate("%s orders a boot while the BMC writes firmware", d.Rule)
		}
	}
}

// handsOff reports whether Ingot must not change the firmware of the host.
func (w *world) handsOff(host *infrav1.IngotHost, obs Observation) bool {
	return w.duplicate || host.Spec.BMC == nil || obs.BMC != BMCOK || w.deleting || w.wrongServer
}

func (w *world) checkLook(host *infrav1.IngotHost, obs Observation, d Decision) {
	r := obs.Firmware
	switch {
	case w.closedTo(obs):
		w.violate("%s asks at once what the BMC has just not told (I13)", d.Rule)
	case w.handsOff(host, obs), ReadingKey(host) == "":
		w.violate("%s looks at firmware that is not to be looked at", d.Rule)
	case r != nil && r.Key == ReadingKey(host) && obs.Now.Sub(r.At) < walkPolicy().UpdateRead && !w.decides(host, obs, d):
		w.violate("%s asks again what was just told", d.Rule)
	case obs.Update.State == UpdateRunning && w.atWork(host, obs):
		w.violate("%s reads versions while the task tells its progress", d.Rule)
	case held(host) && host.Spec.Claim.State == infrav1.ClaimProvisioned && obs.Now.Before(obs.LastReset.Add(walkPolicy().AgentDeadline)):
		w.violate("%s reads settings while the host boots", d.Rule)
	}
}

// decides reports whether a reading is recent enough to start or fail an update.
func (w *world) decides(host *infrav1.IngotHost, obs Observation, d Decision) bool {
	return (d.Rule == "update/look" || d.Rule == "prepare/look") && obs.Now.Sub(obs.Firmware.At) >= walkPolicy().UpdatePoll && !w.atWork(host, obs)
}

// outcomeOf restates the outcome of the preparation for the present spec.
func outcomeOf(host *infrav1.IngotHost) infrav1.PreparationOutcome {
	if r := host.Spec.Record; r != nil && r.Preparation != nil && r.Preparation.SettingsHash == DesiredDigest(host) {
		return r.Preparation.Outcome
	}
	return ""
}

func attemptsOf(host *infrav1.IngotHost) int32 {
	if r := host.Spec.Record; r != nil && r.Preparation != nil && r.Preparation.SettingsHash == DesiredDigest(host) && r.Preparation.Outcome == "" {
		return r.Preparation.Attempt
	}
	return 0
}

// wellRead reports whether a reading matches the spec.
func wellRead(host *infrav1.IngotHost, r *FirmwareReading) bool {
	if r == nil || r.Key != ReadingKey(host) || r.Refused != "" {
		return false
	}
	for _, s := range r.Settings {
		if !s.InForce || !s.Next {
			return false
		}
	}
	for _, wish := range host.Spec.Firmware {
		if r.Versions[wish.Component] != wish.Version {
			return false
		}
	}
	return true
}

func (w *world) checkWrite(host *infrav1.IngotHost, obs Observation, step WriteSettings, rule string) {
	r, c := obs.Firmware, host.Spec.Claim
	inUse := c != nil && c.State == infrav1.ClaimProvisioned
	missing := false
	if r != nil {
		for _, s := range r.Settings {
			missing = missing || !s.Next
		}
	}
	free := c == nil && host.Spec.Order == nil && host.Spec.Record != nil && !host.Spec.Record.InspectedTime.IsZero() &&
		host.Spec.Record.CleaningDue == "" && !w.asked(host, infrav1.InspectAnnotation)
	switch {
	case w.closedTo(obs):
		w.violate("%s writes at once what the BMC has just not taken (I13)", rule)
	case w.handsOff(host, obs), inMaintenance(host) && host.Spec.Order == nil, quarantine(host) != "":
		w.violate("%s writes settings to a host that is to be left alone", rule)
	case inUse && host.Spec.BIOS.Apply != infrav1.BIOSAtNextReboot:
		w.violate("I2: %s writes settings to a provisioned host", rule)
	case !inUse && obs.Power != infrav1.PowerStateOff:
		w.violate("%s writes settings to a host that is on", rule)
	case r == nil, r != nil && r.Key != ReadingKey(host), !missing:
		w.violate("%s writes settings that are not known to be missing", rule)
	case r.Refused != "":
		w.violate("%s writes settings that the BMC cannot be given", rule)
	case r.Tried:
		w.violate("%s writes settings again", rule)
	case outcomeOf(host) == infrav1.PreparationFailed:
		w.violate("%s writes settings that were given up", rule)
	case (inUse || free) && attemptsOf(host) >= walkPolicy().MaxAttempts:
		w.violate("%s writes settings for the fourth time", rule)
	case inUse != (step.Ledger != nil):
		w.violate("%s writes to a provisioned host without counting, or counts where boots are counted", rule)
	}
}

func (w *world) checkStart(host *infrav1.IngotHost, obs Observation, step StartUpdate) {
	h := host.Spec
	switch {
	case h.Claim != nil, h.Order != nil, h.Record == nil || h.Record.InspectedTime.IsZero() || h.Record.CleaningDue != "":
		w.violate("firmware is updated on a host that has other work")
	case w.handsOff(host, obs), inMaintenance(host), quarantine(host) != "", h.Power == infrav1.PowerIntentOff, obs.Power != infrav1.PowerStateOff:
		w.violate("firmware is updated on a host that is to be left alone, or on")
	case host == w.host && w.power && w.lag != "":
		w.violate("firmware is updated on a host that is coming on")
	case UpdateOf(host) != nil, host == w.host && w.fw.task == "running" && w.now.Before(w.fw.since.Add(walkPolicy().UpdateSilence)):
		w.violate("two updates at once")
	case host == w.host && w.fw.pushing != nil:
		w.violate("an image is pushed beside another")
	case step.Delivery() == "", obs.Firmware != nil && step.Delivery() == infrav1.DeliveryFetch && !obs.Firmware.Ways.Fetch:
		w.violate("an update by a way that the BMC does not have: %q", step.Delivery())
	case w.fw.version == step.Component.Version && (obs.Firmware == nil || obs.Firmware.Versions[step.Component.Component] == step.Component.Version):
		w.violate("a version is installed that is in force")
	case attemptsOf(host) >= walkPolicy().MaxAttempts, outcomeOf(host) == infrav1.PreparationFailed:
		w.violate("an update is tried for the fourth time")
	case obs.Firmware != nil && obs.Now.Sub(obs.Firmware.At) >= walkPolicy().UpdatePoll:
		w.violate("an update begins on a reading of %s ago (I17)", obs.Now.Sub(obs.Firmware.At))
	case obs.Firmware == nil || obs.Firmware.Refused != "":
		w.violate("firmware is updated though not all that is wanted can be had")
	}
}

// checkPreparation verifies the preparation in the ledger against the observation.
func (w *world) checkPreparation(obs Observation, before, next Ledger) {
	was, is := preparationOf(before), preparationOf(next)
	if is.Attempt > walkPolicy().MaxAttempts {
		w.violate("attempt %d to prepare the host", is.Attempt)
	}
	if was.Update != nil && is.Update == nil && w.atWork(w.host, obs) {
		w.violate("an update at work is forgotten")
	}
	if was.Update != nil && is.Update == nil && is.Attempt > 0 && was.Update.State != infrav1.UpdateRejected && obs.Update.State != UpdateFailed &&
		obs.Now.Sub(obs.Firmware.At) >= walkPolicy().UpdatePoll {
		w.violate("an update is given up on a reading of %s ago (I17)", obs.Now.Sub(obs.Firmware.At))
	}
	if was.Update != nil && is.Update == nil && is.Attempt > 0 && obs.Firmware.Versions["BIOS"] == was.Update.Version {
		w.violate("an update is said to have failed whose version shows")
	}
	if u := was.Update; u != nil && is.Update == nil && is.Attempt > 0 && !u.BMCResetTime.IsZero() && w.now.Before(u.BMCResetTime.Add(walkPolicy().UpdateRead)) &&
		obs.Update.State != UpdateFailed {
		w.violate("an update is given up while the BMC restarts for it")
	}
	settled := is.Outcome != "" && (was.Outcome != is.Outcome || was.SettingsHash != is.SettingsHash)
	if settled && is.Outcome == infrav1.PreparationApplied && (!wellRead(w.host, obs.Firmware) || is.Update != nil) {
		w.violate("settings and firmware are said to be in force, which they are not known to be")
	}
	if is.Reversions > walkPolicy().MaxAttempts {
		w.violate("prepared again after %d losses", is.Reversions)
	}
	if settled && is.Outcome == infrav1.PreparationFailed && obs.Firmware.Refused == "" && (obs.Firmware.Ways.Fetch || obs.Firmware.Ways.Push) && was.Attempt < walkPolicy().MaxAttempts && is.Reversions < walkPolicy().MaxAttempts {
		w.violate("given up after %d attempts", was.Attempt)
	}
	if was.Outcome == infrav1.PreparationApplied && is.Outcome == "" && is.SettingsHash == was.SettingsHash && wellRead(w.host, obs.Firmware) {
		w.violate("prepared again though all is in force")
	}
	if is.Outcome == "" && is.SettingsHash == was.SettingsHash && is.Update == nil && was.Update != nil && is.Attempt == was.Attempt && is.Attempt > 0 {
		w.violate("an update ends neither well nor badly")
	}
	w.checkBootForPreparation(obs, before, next)
}

func preparationOf(l Ledger) infrav1.HostPreparation {
	if l.Record == nil || l.Record.Preparation == nil {
		return infrav1.HostPreparation{}
	}
	return *l.Record.Preparation
}

// checkBootForPreparation verifies that an inspected host is only booted with a reason.
func (w *world) checkBootForPreparation(obs Observation, before, next Ledger) {
	if before.Order != nil || next.Order == nil || next.Order.Kind != infrav1.OrderInspect || w.asked(w.host, infrav1.InspectAnnotation) ||
		before.Record == nil || before.Record.InspectedTime.IsZero() {
		return
	}
	if update := UpdateOf(w.host); update != nil {
		if before.Record.InspectedTime.After(update.StartTime.Time) || update.State == infrav1.UpdateRejected || obs.Update.State == UpdateFailed {
			w.violate("a second boot for one update, or one for an update that has failed")
		}
		return
	}
	pending := false
	if obs.Firmware != nil {
		for _, s := range obs.Firmware.Settings {
			pending = pending || !s.InForce || !s.Next
		}
	}
	if !pending || preparationOf(next).Attempt <= attemptsOf(w.host) {
		w.violate("a boot for nothing: settings %+v", obs.Firmware)
	}
}

// checkPreparedAvailable verifies that no unprepared host is Available or claimed.
func (w *world) checkPreparedAvailable(host *infrav1.IngotHost, obs Observation) {
	if DesiredDigest(host) == "" && UpdateOf(host) == nil {
		return
	}
	if outcomeOf(host) != infrav1.PreparationApplied || UpdateOf(host) != nil || DesiredDigest(host) != "" && !wellRead(host, obs.Firmware) {
		w.violate("Available without the settings and firmware wanted: %+v", host.Spec.Record.Preparation)
	}
	if r := obs.Firmware; r != nil && obs.Now.Sub(r.At) >= walkPolicy().ReadingAge {
		w.violate("Available on a reading of %s ago", obs.Now.Sub(r.At))
	}
}

// wishIsVain reports whether this BMC cannot apply the spec.
func wishIsVain(host *infrav1.IngotHost) bool {
	for name, value := range settingsOf(host) {
		if name != "S" || value == "unfit" {
			return true
		}
	}
	for _, wish := range host.Spec.Firmware {
		if wish.Component != "BIOS" {
			return true
		}
	}
	return false
}

// obeys reports whether the server applies everything and no failure was counted.
func (w *world) obeys() bool {
	f := w.fw
	unseen := f.needsBMCReset && f.silent // nothing shows that the BMC must restart
	return !unseen && !f.loses && !f.deaf && !f.refuses && !f.refusesUpdates && !f.noWay && f.task != "failed" && attemptsOf(w.host) == 0 && UpdateOf(w.host) == nil &&
		outcomeOf(w.host) != infrav1.PreparationFailed && !wishIsVain(w.host)
}

// restedPrepared returns what is wrong with a settled free host. obeyed is obeys before it settled.
func (w *world) restedPrepared(obeyed bool) string {
	outcome := outcomeOf(w.host)
	switch {
	case DesiredDigest(w.host) == "":
		return mustBe(w.last.Reason == infrav1.ReasonAvailable && UpdateOf(w.host) == nil, "wants nothing and is not available: "+w.last.Rule)
	case wishIsVain(w.host):
		return mustBe(outcome == infrav1.PreparationFailed && w.last.Reason != infrav1.ReasonAvailable, "what cannot be had is not told: "+w.last.Rule)
	case obeyed:
		setting, wished := settingsOf(w.host)["S"]
		ok := !wished || setting == w.fw.setting && w.fw.pending == ""
		for _, wish := range w.host.Spec.Firmware {
			ok = ok && wish.Version == w.fw.version
		}
		return mustBe(ok && outcome == infrav1.PreparationApplied && w.last.Reason == infrav1.ReasonAvailable, "not prepared though it could be: "+w.last.Rule)
	default:
		return mustBe((outcome == infrav1.PreparationApplied) == (w.last.Reason == infrav1.ReasonAvailable) && outcome != "", "preparation does not end: "+w.last.Rule)
	}
}

// restedInUse returns what is wrong with the settings of a settled provisioned host.
func (w *world) restedInUse(obeyed bool) string {
	if DesiredDigest(w.host) != "" && wellRead(w.host, w.fw.reading) && outcomeOf(w.host) != infrav1.PreparationApplied {
		return "what is in force is not remembered: " + w.last.Rule
	}
	setting, wished := settingsOf(w.host)["S"]
	if !wished || !obeyed || w.host.Spec.BIOS.Apply != infrav1.BIOSAtNextReboot {
		return ""
	}
	return mustBe(w.fw.next() == setting, "the next reboot does not bring what was asked for: "+w.last.Rule)
}

// pulseFirmware changes when the firmware does.
func (w *world) pulseFirmware() []any {
	return []any{w.fw.setting, w.fw.pending, w.fw.version, w.fw.task, w.fw.steps}
}

// firmwareState is the firmware's part of world.state.
func (w *world) firmwareState() []any {
	p := preparationOf(LedgerOf(w.host))
	return []any{w.fw.setting, w.fw.pending, w.fw.version, w.fw.task, w.fw.pushing != nil, DesiredDigest(w.host), p.Outcome, p.Attempt, p.Update != nil}
}

const halfHour = 30 * time.Minute
