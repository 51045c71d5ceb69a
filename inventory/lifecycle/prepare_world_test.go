// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// firmwareWorld is what the walks know of a server's firmware: one setting, S, and
// one component, BIOS. Nothing of it happens while on is false.
type firmwareWorld struct {
	on bool

	// The server: values in force and at the next boot ("" the same), the version.
	setting, pending string
	version          string
	// task is "", "running", "waits", "failed" or "done"; id is what the BMC calls it.
	task, id, installing string
	steps                int
	since                time.Time
	// What the BMC is like.
	deaf, refuses, refusesUpdates, silent, needsBMCReset, needsNothing bool
	// pushOnly: it fetches nothing; noWay: it takes no push either.
	pushOnly, noWay bool
	// pushing is the step whose image is being pushed, by the manager that lives.
	pushing *StartUpdate
	// slow: firmware is written after the restart, not before; restarted: it was.
	slow, restarted bool
	// closed: the BMC answers, but not to what is asked of settings and firmware; the
	// manager then leaves them alone until rests.
	closed bool
	rests  time.Time
	// stays: its machine is not deleted, so that the host is in use for long.
	stays bool
	// loses: switching it on loses the settings, and the version.
	loses bool
	// busy: while it writes firmware it tells of a task once, and then fails to; asked is
	// the task that it told of.
	busy  bool
	asked string

	// What the manager keeps in memory.
	reading  *FirmwareReading
	tried    bool
	tryError string
	// told is the task that was running, the last time that the BMC said anything.
	told string
	// looked is the rule that last asked for a reading.
	looked string
	// dieLate: the next crash is after the BMC's call, not before it.
	dieLate bool
}

// startFirmware begins a walk about firmware: with a wish, and mostly with a host that
// is known already, since walks that have to inspect it first seldom get far.
func (w *world) startFirmware(seed uint64) {
	w.fw.on = true
	w.fw.silent, w.fw.slow, w.fw.needsBMCReset = seed%4 == 0, seed%8 < 4, seed%16 < 3
	w.fw.pushOnly, w.fw.noWay = seed%18 == 4, seed%45 == 7
	w.fw.busy = seed%7 == 3
	if seed%5 > 1 {
		w.addressed = true
		w.write(func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Time{Time: w.now}} })
	}
	w.wantFirmware("BIOS", "2")
	if seed%2 == 0 {
		w.wantFirmware("", "")
		w.wantSettings(map[string]string{"S": "b"})
	}
	if seed%21 == 10 { // a host that a person wants on, and that loses its settings by it
		w.wantFirmware("", "")
		w.wantSettings(map[string]string{"S": "b"})
		w.fw.setting, w.fw.loses = "b", true
		if seed%2 == 0 {
			w.wantFirmware("BIOS", "1")
		}
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Power = infrav1.PowerIntentOn
			h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Time{Time: w.now}}
			h.Spec.Record.Preparation = &infrav1.HostPreparation{Wishes: WishesOf(h), Outcome: infrav1.PreparationInForce}
		})
		w.addressed = true
	}
	if seed%39 == 1 { // an update that came to nothing, of which the BMC tells nothing, and its boot
		w.wantFirmware("BIOS", "2")
		w.addressed = true
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Time{Time: w.now}}
			h.Spec.Record.Preparation = &infrav1.HostPreparation{Wishes: WishesOf(h), Update: &infrav1.FirmwareUpdate{
				Component: "BIOS", Version: "2", State: infrav1.UpdateAsked, StartedAt: metav1.Time{Time: w.now.Add(time.Minute - walkPolicy().UpdateSilence)}}}
		})
	}
	if seed%14 == 4 { // a host in use, and a person who asks for settings
		w.fw.refuses, w.fw.stays = seed%28 == 4, true
		w.machine, w.power, w.running, w.disk = true, true, "os", "00000000-0000-4000-8000-000000000000"
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Time{Time: w.now}}
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "a", Attempt: 1,
				InstanceID: w.disk, State: infrav1.ClaimProvisioned, Cleaning: infrav1.CleaningMetadata}
		})
		w.applyAt(infrav1.BIOSAtNextReboot)
	}
}

// forget is what a restart of the manager, or a move, loses.
func (f *firmwareWorld) forget() { f.reading, f.tried, f.tryError, f.told = nil, false, "", "" }

// fails notes that a call about settings or firmware has failed.
func (w *world) fails(obs *Observation) {
	w.fw.rests = w.now.Add(walkPolicy().RetryMax)
	obs.FirmwareRetryAt = w.fw.rests
}

// managerEnds is forget, and the end of the push of an image.
func (w *world) managerEnds() {
	w.refused, w.since, w.proof, w.bootOf = [2]time.Time{}, w.now, OffProof{}, ""
	w.fw.forget()
	if pushing := w.fw.pushing; pushing != nil { // the BMC had just got the last of it
		w.endPush(true)
	}
}

// endPush is the end of a push, and of the manager where that dies with it.
func (w *world) endPush(dies bool) {
	step := *w.fw.pushing
	w.fw.pushing = nil
	if UpdateOf(w.host) != nil {
		w.startTask(step, dies)
	}
}

func (f *firmwareWorld) next() string {
	if f.pending != "" {
		return f.pending
	}
	return f.setting
}

// observeFirmware adds what the manager remembers, and what the task tells.
func (w *world) observeFirmware(host *infrav1.IngotHost, obs *Observation) {
	obs.Firmware, obs.FirmwareRetryAt = w.fw.reading, w.fw.rests
	if w.fw.pushing != nil {
		obs.Update = UpdateTask{State: UpdatePushing, Percent: 50}
		return
	}
	update := UpdateOf(host)
	if update == nil || update.TaskID == "" || w.bmc != BMCOK {
		return
	}
	if update.TaskID != w.fw.id {
		w.fw.told = "" // it says that it knows no such task
		return
	}
	states := map[string]UpdateProgress{"running": UpdateRunning, "waits": UpdateWaits, "failed": UpdateFailed, "done": UpdateSucceeded}
	running := w.fw.task == "running"
	if w.fw.busy && running && w.fw.asked == w.fw.id {
		if w.fw.told != w.fw.id || !w.now.Before(update.StartedAt.Add(walkPolicy().UpdateDeadline)) {
			w.fw.told = ""
			return
		}
	}
	obs.Update = UpdateTask{State: states[w.fw.task], Percent: 50, Message: "says the BMC"}
	if w.fw.told = ""; running {
		w.fw.asked, w.fw.told = w.fw.id, w.fw.id
	}
}

// look is the controller's reading.
func (w *world) look(host *infrav1.IngotHost) *FirmwareReading {
	if w.fw.reading != nil {
		w.fw.tried, w.fw.tryError = false, ""
	}
	r := &FirmwareReading{At: w.now, Key: ReadingKey(host), Versions: map[string]string{}, Tried: w.fw.tried, TryError: w.fw.tryError}
	if r.Ways = (UpdateWays{Fetch: !w.fw.pushOnly, Push: true}); w.fw.noWay {
		r.Ways = UpdateWays{}
	}
	settings, components := LooksFor(host)
	for name, wanted := range settings {
		if name != "S" {
			r.RefusedReason, r.Refused = infrav1.ReasonSettingsRefused, "no setting "+name
			continue
		}
		s := SettingReading{Name: name, Wanted: wanted, Value: w.fw.setting, InForce: w.fw.setting == wanted, Next: w.fw.next() == wanted}
		if w.fw.next() != w.fw.setting {
			s.Pending = w.fw.next()
		}
		r.Settings = append(r.Settings, s)
	}
	for _, component := range components {
		if component != "BIOS" {
			r.RefusedReason, r.Refused = infrav1.ReasonFirmwareRefused, "no component "+component
			continue
		}
		r.Versions[component] = w.fw.version
	}
	if before := w.fw.reading; r.Refused != "" {
		r.RefusedSince = r.At
		if before != nil && before.Key == r.Key && !before.RefusedSince.IsZero() {
			r.RefusedSince = before.RefusedSince
		}
	}
	w.fw.reading = r
	return r
}

// saveLedger writes the ledger as the controller does.
func (w *world) saveLedger(l Ledger) {
	w.write(func(h *infrav1.IngotHost) { l.Apply(h) })
}

// executeFirmware takes the steps of this file. The controller takes none of them on
// an old view.
func (w *world) executeFirmware(host *infrav1.IngotHost, step Step, crash bool) {
	if host != w.host {
		return
	}
	switch step := step.(type) {
	case WriteSettings:
		if w.fw.closed {
			w.fails(&Observation{}) // nothing is counted
			return
		}
		if step.Ledger != nil {
			w.saveLedger(*step.Ledger)
		}
		if !crash {
			w.writeSetting(step.Settings["S"])
		}
	case StartUpdate:
		w.saveLedger(step.Ledger)
		w.fw.reading = nil
		if crash && !w.fw.dieLate {
			return
		}
		if step.Delivery() == infrav1.DeliveryPush {
			if w.fw.pushing = &step; crash {
				w.fw.pushing = nil
			}
			return
		}
		w.startTask(step, crash)
	case ResetBMC:
		w.saveLedger(step.Ledger)
		w.fw.reading = nil
		if !crash && w.fw.task == "waits" && w.fw.needsBMCReset {
			w.fw.id = "forgotten" // as BMCs do at their restart
			w.afterRestart()
		}
	}
}

func (w *world) writeSetting(value string) {
	switch {
	case value == "unfit":
		w.fw.reading.RefusedReason, w.fw.reading.Refused = infrav1.ReasonSettingsRefused, "unfit"
	case w.fw.refuses:
		w.fw.tried, w.fw.tryError = true, "no"
		w.fw.reading.Tried, w.fw.reading.TryError = true, "no"
	default:
		w.fw.pending, w.fw.reading, w.fw.tried = value, nil, true
		if value == w.fw.setting {
			w.fw.pending = ""
		}
	}
}

func (w *world) startTask(step StartUpdate, crash bool) {
	note := w.saveLedger
	if step.Delivery() == infrav1.DeliveryPush {
		note = func(l Ledger) { // the ledger may have changed since the push began
			w.write(func(h *infrav1.IngotHost) {
				h.Spec.Record = h.Spec.Record.DeepCopy()
				h.Spec.Record.Preparation.Update = l.Record.Preparation.Update
			})
		}
	}
	if w.fw.refusesUpdates {
		if !crash {
			note(step.Refused("no room"))
		}
		return
	}
	w.fw.task, w.fw.installing, w.fw.steps, w.fw.since, w.fw.id = "running", step.Component.Version, 0, w.now, w.id()
	w.fw.restarted = false
	if crash {
		return
	}
	id := w.fw.id
	if w.fw.silent {
		id = ""
	}
	if step.Delivery() == infrav1.DeliveryPush {
		note(step.Pushed(id, w.now))
		return
	}
	note(step.Accepted(id))
}

// taskWorks takes the task one step on.
func (w *world) taskWorks() {
	if w.fw.task != "running" {
		return
	}
	if w.fw.steps++; w.fw.steps < 3 {
		return
	}
	w.fw.task = "waits"
	if w.fw.needsNothing || w.fw.restarted {
		w.installed()
	}
}

// halfAnHour passes, which is enough for any task of a BMC that finds the time to tell of it.
func (w *world) halfAnHour() {
	w.now = w.now.Add(halfHour + time.Minute)
	steps := 3
	if w.fw.busy {
		steps = 2
	}
	for range steps {
		w.taskWorks()
	}
}

// inPOST: the host writes its firmware before it boots anything.
func (w *world) inPOST() bool { return w.fw.task == "running" && w.fw.restarted && !w.fw.needsBMCReset }

// afterRestart is what the restart does that the task waited for.
func (w *world) afterRestart() {
	if !w.fw.slow {
		w.installed()
		return
	}
	w.fw.task, w.fw.steps, w.fw.restarted = "running", 1, true
}

func (w *world) installed() { w.fw.task, w.fw.version = "done", w.fw.installing }

// bootFirmware is what a boot does to settings and firmware.
func (w *world) bootFirmware() {
	if w.fw.pending != "" && !w.fw.deaf {
		w.fw.setting = w.fw.pending
	}
	w.fw.pending = ""
	if w.fw.loses && w.fw.task == "" && w.running != "agent" {
		w.fw.setting, w.fw.version = "c", "0"
	}
	if w.fw.task == "waits" && !w.fw.needsBMCReset {
		w.afterRestart()
	}
}

func (w *world) wantSettings(settings map[string]string) {
	w.write(func(h *infrav1.IngotHost) {
		apply := infrav1.BIOSWhilePrepared
		if h.Spec.BIOS != nil {
			apply = h.Spec.BIOS.Apply
		}
		h.Spec.BIOS = nil
		if settings != nil {
			h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: settings, Apply: apply}
		}
	})
}

func (w *world) wantFirmware(component, version string) {
	w.write(func(h *infrav1.IngotHost) {
		h.Spec.Firmware = nil
		if component != "" {
			h.Spec.Firmware = []infrav1.FirmwareComponent{{Component: component, Version: version, URL: "http://images.example/f", Checksum: "sha256:1"}}
		}
	})
}

func (w *world) applyAt(apply infrav1.BIOSApply) {
	w.write(func(h *infrav1.IngotHost) {
		if h.Spec.BIOS != nil {
			h.Spec.BIOS = h.Spec.BIOS.DeepCopy()
			h.Spec.BIOS.Apply = apply
		}
	})
}

// firmwareEvents happen in the walks about firmware only; the others stay as they are.
func firmwareEvents() []event {
	on := func(w *world) bool { return w.fw.on }
	running := func(w *world) bool { return w.fw.task == "running" }
	pushing := func(w *world) bool { return w.fw.pushing != nil }
	inUse := func(w *world) bool { return w.fw.on && held(w.host) && w.claim().State == infrav1.ClaimProvisioned }
	settled := func(w *world) bool { return w.fw.on && outcomeOf(w.host) == infrav1.PreparationInForce }
	settings := func(name, value string) func(*world) {
		return func(w *world) { w.wantSettings(map[string]string{name: value}) }
	}
	version := func(component, version string) func(*world) {
		return func(w *world) { w.wantFirmware(component, version) }
	}
	flag := func(name string, of func(*firmwareWorld) *bool) event {
		return event{name: name, weight: 1, fault: true, when: on, do: toggle(func(w *world) *bool { return of(&w.fw) })}
	}
	return []event{
		{name: "person: wants another setting", weight: 4, when: on, do: settings("S", "b")},
		{name: "person: wants the factory's setting", weight: 2, when: on, do: settings("S", "a")},
		{name: "person: wants a setting that is none", weight: 1, fault: true, when: on, do: settings("X", "a")},
		{name: "person: wants a value that is none", weight: 1, fault: true, when: on, do: settings("S", "unfit")},
		{name: "person: wants no settings", weight: 1, fault: true, when: on, do: func(w *world) { w.wantSettings(nil) }},
		{name: "person: wants settings at the next reboot", weight: 3, when: on, do: func(w *world) { w.applyAt(infrav1.BIOSAtNextReboot) }},
		{name: "person: wants settings while prepared", weight: 1, when: on, do: func(w *world) { w.applyAt(infrav1.BIOSWhilePrepared) }},
		{name: "person: wants new firmware", weight: 4, when: on, do: version("BIOS", "2")},
		{name: "person: wants old firmware", weight: 2, when: on, do: version("BIOS", "1")},
		{name: "person: wants firmware of nothing", weight: 1, fault: true, when: on, do: version("Toaster", "2")},
		{name: "person: wants no firmware", weight: 1, fault: true, when: on, do: version("", "")},
		{name: "firmware: task works", weight: 14, when: running, do: (*world).taskWorks},
		{name: "manager: the push ends", weight: 24, when: pushing, do: func(w *world) { w.endPush(false) }},
		{name: "manager: the push ends after half an hour, with the manager", weight: 8, when: pushing, do: func(w *world) {
			w.halfAnHour()
			w.managerEnds()
		}},
		{name: "firmware: task fails", weight: 2, fault: true, when: running, do: func(w *world) { w.fw.task = "failed" }},
		{name: "firmware: task is forgotten", weight: 1, fault: true, when: running, do: func(w *world) { w.fw.id = "forgotten" }},
		flag("firmware: boots bring no settings", func(f *firmwareWorld) *bool { return &f.deaf }),
		flag("BMC refuses settings", func(f *firmwareWorld) *bool { return &f.refuses }),
		flag("BMC keeps settings and firmware to itself", func(f *firmwareWorld) *bool { return &f.closed }),
		flag("BMC refuses updates", func(f *firmwareWorld) *bool { return &f.refusesUpdates }),
		flag("BMC tells no task", func(f *firmwareWorld) *bool { return &f.silent }),
		flag("firmware: waits for the BMC", func(f *firmwareWorld) *bool { return &f.needsBMCReset }),
		flag("firmware: is written after the restart", func(f *firmwareWorld) *bool { return &f.slow }),
		flag("firmware: waits for nothing", func(f *firmwareWorld) *bool { return &f.needsNothing }),
		{name: "somebody changes settings", weight: 2, fault: true, when: on, do: func(w *world) { w.fw.setting, w.fw.pending = "c", "" }},
		{name: "somebody changes the next boot's settings", weight: 1, fault: true, when: on, do: func(w *world) { w.fw.pending = "c" }},
		{name: "manager: dies after calling", weight: 3, fault: true, when: on, do: func(w *world) {
			w.fw.dieLate = true
			w.reconcile(w.host, true)
			w.fw.dieLate = false
		}},
		{name: "manager: restarts", weight: 2, fault: true, when: on, do: (*world).managerEnds},
		{name: "half an hour in use", weight: 8, when: inUse, do: (*world).halfAnHour},
		{name: "half an hour", weight: 1, fault: true, when: on, do: (*world).halfAnHour},
		{name: "somebody changes settings, and time passes", weight: 5, fault: true, when: settled, do: func(w *world) {
			w.fw.setting, w.fw.pending = "c", ""
			w.halfAnHour()
		}},
	}
}
