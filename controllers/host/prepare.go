// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// saveTime bounds the note of what a BMC answered to an update, also while the
// manager stops: without it the update's task would be lost from sight.
const saveTime = 10 * time.Second

// firmwareMemory is what is remembered of a host's settings and firmware until it is
// switched. It may be lost: the BMC is then read again.
type firmwareMemory struct {
	// address of the BMC that was read.
	address string
	reading *inventory.FirmwareReading
	// tried: settings were written since the last switch; tryError is the answer.
	tried    bool
	tryError string
}

// observeFirmware adds what is remembered, and what the BMC tells of an update under
// way: its task is asked for only then.
func (r *Reconciler) observeFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if seen.BMC != inventory.BMCOK || host.Spec.BMC == nil {
		return nil
	}
	if memory := seen.known.firmware; memory.address == seen.target.Address {
		seen.Firmware = memory.reading
	}
	if host.Spec.Record == nil || host.Spec.Record.Preparation == nil || host.Spec.Record.Preparation.Update == nil {
		return nil
	}
	id := host.Spec.Record.Preparation.Update.TaskID
	if id == "" {
		return nil
	}
	var task bmc.Task
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) (err error) {
		task, err = conn.Task(ctx, id)
		return err
	})
	seen.Now = r.Clock.Now()
	if err != nil { // not known: BMCs forget their tasks when they restart
		ctrl.LoggerFrom(ctx).V(1).Info("The task of the update cannot be read", "task", id, "error", err.Error())
		return nil
	}
	seen.Update = inventory.UpdateTask{State: progressOf(task.State), Percent: task.Percent, Message: task.Message}
	return nil
}

func progressOf(state bmc.TaskState) inventory.UpdateProgress {
	switch state {
	case bmc.TaskRunning:
		return inventory.UpdateRunning
	case bmc.TaskSucceeded:
		return inventory.UpdateSucceeded
	case bmc.TaskFailed:
		return inventory.UpdateFailed
	case bmc.TaskWaitsForReset:
		return inventory.UpdateWaits
	}
	return inventory.UpdateUnknown
}

// decide asks inventory.Next, and once more when it wants to know what settings and
// firmware the host has.
func (r *Reconciler) decide(ctx context.Context, host *infrav1.IngotHost, seen *observation) inventory.Decision {
	decision := inventory.Next(host, seen.Observation, r.Policy)
	r.spaceUpdates(host, seen, decision)
	if isPutOff(host, seen, decision) {
		return putOffDecision(seen, decision)
	}
	if _, ok := decision.Step.(inventory.LookInside); !ok {
		return decision
	}
	r.look(ctx, host, seen)
	decision = inventory.Next(host, seen.Observation, r.Policy)
	r.spaceUpdates(host, seen, decision)
	if isPutOff(host, seen, decision) {
		return putOffDecision(seen, decision)
	}
	return decision
}

// look reads settings and firmware. That they cannot be read is the BMC's failure,
// with its backoff.
func (r *Reconciler) look(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	memory := seen.known.firmware
	if memory.reading != nil || memory.address != seen.target.Address {
		memory = firmwareMemory{address: seen.target.Address}
	}
	var reading *inventory.FirmwareReading
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) (err error) {
		reading, err = readFirmware(ctx, conn, host)
		return err
	})
	seen.Now = r.Clock.Now()
	known := seen.known
	if err != nil {
		known = r.failed(host, known, err, seen.Now)
	} else {
		reading.At, reading.Key, reading.Tried, reading.TryError = seen.Now, inventory.ReadingKey(host), memory.tried, memory.tryError
		memory.reading = reading
		known.firmware = memory
	}
	r.contacts.keep(host, known)
	seen.contact(host, known)
	seen.Firmware = known.firmware.reading
}

// remember changes what is remembered of the host's firmware.
func (r *Reconciler) remember(host *infrav1.IngotHost, seen *observation, change func(*firmwareMemory)) {
	known := seen.known
	known.firmware.address = seen.target.Address
	change(&known.firmware)
	seen.known, seen.Firmware = known, known.firmware.reading
	r.contacts.keep(host, known)
}

// forgetFirmware: what was read before a switch says nothing of what is after it.
func (r *Reconciler) forgetFirmware(host *infrav1.IngotHost, seen *observation) {
	r.remember(host, seen, func(m *firmwareMemory) { *m = firmwareMemory{address: m.address} })
}

// isFirmware says whether a step is one of this file.
func isFirmware(step inventory.Step) bool {
	switch step.(type) {
	case inventory.WriteSettings, inventory.StartUpdate, inventory.ResetBMC:
		return true
	}
	return false
}

// executeFirmware takes a step of the preparation. Like a switch, none is taken on an
// old view.
func (r *Reconciler) executeFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *inventory.Decision) (time.Duration, error) {
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.waits().Soon, err
	}
	ctrl.LoggerFrom(ctx).Info("Preparing the host", "step", fmt.Sprintf("%T", decision.Step), "rule", decision.Rule)
	var err error
	switch step := decision.Step.(type) {
	case inventory.WriteSettings:
		err = r.writeSettings(ctx, host, seen, step)
	case inventory.StartUpdate:
		err = r.startUpdate(ctx, host, seen, step)
	case inventory.ResetBMC:
		err = r.resetBMC(ctx, host, seen, step)
	}
	if err == nil && isPutOff(host, seen, *decision) {
		*decision = putOffDecision(seen, *decision)
	}
	var failure *bmcFailure
	if errors.As(err, &failure) {
		return r.switchFailed(host, seen, decision, failure.err), nil
	}
	return r.waits().Soon, err
}

// bmcFailure is an error that the BMC's condition shows, with its backoff.
type bmcFailure struct{ err error }

// Error implements error.
func (f *bmcFailure) Error() string { return f.err.Error() }

// verdict is what the answer to a write means.
type verdict int

const (
	// taken: the BMC has it, or may have it: it is read back, and not written again (I17).
	taken verdict = iota
	// refused: the BMC will not have it.
	refused
	// unsent: the BMC never heard of it.
	unsent
)

func verdictOf(err error) verdict {
	if err == nil {
		return taken
	}
	switch problemOf(err) {
	case inventory.BMCTimeout:
		return taken
	case inventory.BMCError, inventory.BMCUnsupported:
		return refused
	}
	return unsent
}

// writeSettings asks the BMC for settings, and remembers that it did.
func (r *Reconciler) writeSettings(ctx context.Context, host *infrav1.IngotHost, seen *observation, step inventory.WriteSettings) error {
	if step.Ledger != nil {
		if _, err := r.replaceLedger(ctx, host, *step.Ledger); err != nil {
			return err
		}
	}
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error { return conn.SetSettings(ctx, step.Settings) })
	var misfit *bmc.SettingError
	switch {
	case errors.As(err, &misfit), errors.Is(err, bmc.ErrNotSupported):
		r.remember(host, seen, func(m *firmwareMemory) {
			reading := *m.reading
			reading.RefusedReason, reading.Refused = infrav1.ReasonSettingsRefused, why(err, misfit)
			m.reading = &reading
		})
	case verdictOf(err) == unsent:
		return &bmcFailure{err}
	case verdictOf(err) == refused:
		r.remember(host, seen, func(m *firmwareMemory) {
			reading := *m.reading
			reading.Tried, reading.TryError = true, stable(err.Error())
			m.tried, m.tryError, m.reading = true, reading.TryError, &reading
		})
	default:
		r.remember(host, seen, func(m *firmwareMemory) { m.tried, m.reading = true, nil })
	}
	return nil
}

// why is what a person is told of a refused setting.
func why(err error, misfit *bmc.SettingError) string {
	if misfit != nil {
		return "spec.bios.settings: " + misfit.Error()
	}
	return "the BMC cannot set BIOS settings: " + stable(err.Error())
}

// startUpdate notes the update, then has the BMC install it, then notes the answer. A
// manager that dies in between leaves an update of which nobody knows whether the BMC
// has it: it is looked for, and not sent again (I17).
func (r *Reconciler) startUpdate(ctx context.Context, host *infrav1.IngotHost, seen *observation, step inventory.StartUpdate) error {
	read, err := r.checkImage(host, step.Component)
	switch {
	case !read:
		r.awaitUpdate(host, seen, "Ingot reads the image at "+hostOf(step.Component.URL)+" for its checksum")
		return nil
	case errors.Is(err, errNoImage):
		r.putOffUpdate(host, seen, stable(err.Error()), 0)
		return nil
	case err != nil:
		_, saveErr := r.replaceLedger(ctx, host, step.Refused(err.Error()))
		return saveErr
	}
	if _, err := r.replaceLedger(ctx, host, step.Ledger); err != nil {
		return err
	}
	r.forgetFirmware(host, seen)
	var task bmc.Task
	err = r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) (err error) {
		task, err = conn.UpdateFirmware(ctx, bmc.Update{URL: step.Component.URL})
		return err
	})
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	switch {
	case err == nil:
		return r.noteUpdate(save, host, step.Accepted(task.ID))
	case verdictOf(err) == refused:
		return r.noteUpdate(save, host, step.Refused(stable(err.Error())))
	case verdictOf(err) == unsent:
		if noteErr := r.noteUpdate(save, host, step.Unsent()); noteErr != nil {
			return noteErr
		}
		least := bmc.RetryAfter(err)
		var rests *bmc.RestError
		if errors.As(err, &rests) {
			err = rests.Err // how long the rest lasts differs each time
		}
		r.putOffUpdate(host, seen, stable(err.Error()), least)
	}
	return nil
}

// noteUpdate writes what became of an update into the ledger as it is now, if it is
// still about that update.
func (r *Reconciler) noteUpdate(ctx context.Context, host *infrav1.IngotHost, noted inventory.Ledger) error {
	live := &infrav1.IngotHost{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), live)
	if apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("live read of the host under update: %w", err)
	}
	if live.UID != host.UID || live.Spec.Record == nil || live.Spec.Record.Preparation == nil || live.Spec.Record.Preparation.Update == nil {
		return errStale
	}
	next := live.DeepCopy()
	next.Spec.Record.Preparation.Update = noted.Record.Preparation.Update
	return r.patchLocked(ctx, next, live)
}

// resetBMC notes the restart, then asks for it. What becomes of the update is seen.
func (r *Reconciler) resetBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation, step inventory.ResetBMC) error {
	if _, err := r.replaceLedger(ctx, host, step.Ledger); err != nil {
		return err
	}
	r.forgetFirmware(host, seen)
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error { return conn.ResetBMC(ctx) })
	if err != nil && verdictOf(err) != taken {
		r.event(host, infrav1.ReasonFirmwareUpdateFailed, "The BMC could not be restarted for the update: "+stable(err.Error())+
			". Ingot looks for the new version all the same; restart the BMC by hand if it does not show")
	}
	return nil
}

// replaceLedger writes claim, record and order on the version that was decided on.
func (r *Reconciler) replaceLedger(ctx context.Context, host *infrav1.IngotHost, ledger inventory.Ledger) (*infrav1.IngotHost, error) {
	next := host.DeepCopy()
	next.Spec.Claim, next.Spec.Record, next.Spec.Order = ledger.Claim, ledger.Record, ledger.Order
	if err := r.patchLocked(ctx, next, host); err != nil {
		return nil, err
	}
	return next, nil
}

// updateOperation shows the update under way, where no order is.
func updateOperation(host *infrav1.IngotHost, seen *observation) *infrav1.HostOperation {
	if host.Spec.Order != nil || host.Spec.Record == nil || host.Spec.Record.Preparation == nil || host.Spec.Record.Preparation.Update == nil {
		return nil
	}
	preparation := host.Spec.Record.Preparation
	operation := &infrav1.HostOperation{
		Kind: infrav1.OperationUpdate, Step: "Update" + firstRunes(preparation.Update.Component, 58),
		StartedAt: preparation.Update.StartedAt, Attempts: preparation.Attempts + 1,
	}
	if seen.Update.State != inventory.UpdateUnknown && seen.Update.Percent >= 0 {
		operation.Percent = ptr.To(int32(min(seen.Update.Percent, 100)))
	}
	return operation
}

// firstRunes keeps a name within the schema's bound.
func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n])
	}
	return text
}
