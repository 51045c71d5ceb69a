// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// firmwareWorld simulates a server's firmware: one setting, S, and one component, BIOS. It is
// inactive while on is false.
type firmwareWorld struct {
	on bool

	// The server: the value in force and after the next boot ("" for the same), and the version.
	setting, pending string
	version          string
	// task is "", "running", "waits", "failed" or "done"; id is its ID in the BMC.
	task, id, installing string
	steps                int
	since                time.Time
	// The kind of BMC.
	deaf, refuses, refusesUpdates, silent, needsBMCReset, needsNothing bool
	// pushOnly: it cannot fetch; noWay: it takes no push either.
	pushOnly, noWay bool
	// pushing is the step whose image the running manager pushes.
	pushing *StartUpdate
	// slow: firmware is written after the restart, not before; restarted: it was.
	slow, restarted bool
	// closed: the BMC fails calls about settings and firmware; the manager then waits until
	// rests.
	closed bool
	rests  time.Time
	// stays: the machine is not deleted, so that the host stays in use.
	stays bool
	// loses: a power-on loses the settings and the version.
	loses bool
	// busy: while it writes firmware it reports a task only once; asked is that task.
	busy  bool
	asked string

	// The manager's memory.
	reading  *FirmwareReading
	tried    bool
	tryError string
	// told is the task that was running when the BMC last reported.
	told string
	// looked is the rule that last requested a reading.
	looked string
	// dieLate: the next crash is after the BMC's call, not before it.
	dieLate bool
}

// startFirmware starts a walk with desired settings and firmware, and mostly with an inspected host,
// since other walks rarely get far.
func (w *world) startFirmware(seed uint64) {
	w.fw.on = true
	w.fw.silent, w.fw.slow, w.fw.needsBMCReset = seed%4 == 0, seed%8 < 4, seed%16 < 3
	w.fw.pushOnly, w.fw.noWay = seed%18 == 4, seed%45 == 7
	w.fw.busy = seed%7 == 3
	if seed%5 > 1 {
		w.addressed = true
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Time{Time: w.now}}
		})
	}
	w.wantFirmware("BIOS", "2")
	if seed%2 == 0 {
		w.wantFirmware("", "")
		w.wantSettings(map[string]string{"S": "b"})
	}
	if seed%21 == 10 { // spec.power On, and the host loses its settings at power-on
		w.wantFirmware("", "")
		w.wantSettings(map[string]string{"S": "b"})
		w.fw.setting, w.fw.loses = "b", true
		if seed%2 == 0 {
			w.wantFirmware("BIOS", "1")
		}
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Power = infrav1.PowerIntentOn
			h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Time{Time: w.now}}
			h.Spec.Record.Preparation = &infrav1.HostPreparation{SettingsHash: DesiredDigest(h), Outcome: infrav1.PreparationApplied}
		})
		w.addressed = true
	}
	if seed%39 == 1 { // a failed update without a report of the BMC, and its boot
		w.wantFirmware("BIOS", "2")
		w.addressed = true
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Time{Time: w.now}}
			h.Spec.Record.Preparation = &infrav1.HostPreparation{SettingsHash: DesiredDigest(h), Update: &infrav1.FirmwareUpdate{
				Component: "BIOS", Version: "2", State: infrav1.UpdateRequested, StartTime: metav1.Time{Time: w.now.Add(time.Minute - walkPolicy().UpdateSilence)}}}
		})
	}
	if seed%14 == 4 { // an operator requests settings on a host in use
		w.fw.refuses, w.fw.stays = seed%28 == 4, true
		w.machine, w.power, w.running, w.disk = true, true, "os", "00000000-0000-4000-8000-000000000000"
		w.write(func(h *infrav1.IngotHost) {
			h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Time{Time: w.now}}
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "a", Attempt: 1,
				InstanceID: w.disk, State: infrav1.ClaimProvisioned, Cleaning: infrav1.CleaningMetadata}
		})
		w.applyAt(infrav1.BIOSAtNextReboot)
	}
}

// forget drops what a restart of the manager or a move loses.
func (f *firmwareWorld) forget() { f.reading, f.tried, f.tryError, f.told = nil, false, "", "" }

// fails records a failed call about settings or firmware.
func (w *world) fails(obs *Observation) {
	w.fw.rests = w.now.Add(walkPolicy().RetryMax)
	obs.FirmwareRetryAt = w.fw.rests
}

// managerEnds is forget, and ends the push of an image.
func (w *world) managerEnds() {
	w.refused, w.since, w.proof, w.bootOf = [2]time.Time{}, w.now, OffProof{}, ""
	w.fw.forget()
	if pushing := w.fw.pushing; pushing != nil { // the BMC had just got the end of the image
		w.endPush(true)
	}
}

// endPush ends a push, with a crash of the manager if requested.
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

// observeFirmware adds the manager's reading and the state of the task.
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
		w.fw.told = "" // the BMC does not know the task
		return
	}
	states := map[string]UpdateProgress{"running": UpdateRunning, "waits": UpdateWaitsForReset, "failed": UpdateFailed, "done": UpdateSucceeded}
	running := w.fw.task == "running"
	if w.fw.busy && running && w.fw.asked == w.fw.id {
		if w.fw.told != w.fw.id || !w.now.Before(update.StartTime.Add(walkPolicy().UpdateDeadline)) {
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
	settings, components := RequiredReading(host)
	for name, wanted := range settings {
		if name != "S" {
			r.RefusedReason, r.Refused = infrav1.ReasonSettingsRejected, "no setting "+name
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
			r.RefusedReason, r.Refused = infrav1.ReasonFirmwareRejected, "no component "+component
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

// executeFirmware executes steps about settings and firmware, which need a current read.
func (w *world) executeFirmware(host *infrav1.IngotHost, step Step, crash bool) {
	if host != w.host {
		return
	}
	switch step := step.(type) {
	case WriteSettings:
		if w.fw.closed {
			w.fails(&Observation{}) // not counted
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
		w.fw.reading.RefusedReason, w.fw.reading.Refused = infrav1.ReasonSettingsRejected, "unfit"
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

// taskWorks advances the task by one step.
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

// halfAnHour is enough for any task of a BMC that reports.
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

// inPOST reports whether the host writes firmware before it boots.
func (w *world) inPOST() bool { return w.fw.task == "running" && w.fw.restarted && !w.fw.needsBMCReset }

// afterRestart applies the restart for which the task waited.
func (w *world) afterRestart() {
	if !w.fw.slow {
		w.installed()
		return
	}
	w.fw.task, w.fw.steps, w.fw.restarted = "running", 1, true
}

func (w *world) installed() { w.fw.task, w.fw.version = "done", w.fw.installing }

// bootFirmware applies a boot to settings and firmware.
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
		apply := infrav1.BIOSBeforeProvisioning
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

// firmwareEvents only happen in walks with firmware.
func firmwareEvents() []event {
	on := func(w *world) bool { return w.fw.on }
	running := func(w *world) bool { return w.fw.task == "running" }
	pushing := func(w *world) bool { return w.fw.pushing != nil }
	inUse := func(w *world) bool { return w.fw.on && held(w.host) && w.claim().State == infrav1.ClaimProvisioned }
	settled := func(w *world) bool { return w.fw.on && outcomeOf(w.host) == infrav1.PreparationApplied }
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
		{name: "person: wants settings while prepared", weight: 1, when: on, do: func(w *world) { w.applyAt(infrav1.BIOSBeforeProvisioning) }},
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
