// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/media"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
	"github.com/ingot-metal/ingot/lab/bmc/task"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

const actionResetBMC = "ResetBMC"

// resetTypes returns the allowed ResetType values, by default all that the emulator knows
// (DSP0268, Resource.ResetType).
func (b *BMC) resetTypes() []string {
	if len(b.p.Quirks.ResetTypes) > 0 {
		return b.p.Quirks.ResetTypes
	}
	return []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "ForceOn"}
}

func (b *BMC) powerState(f Faults) string {
	on := b.cfg.Machine.Powered()
	switch f.PowerLie {
	case Opposite:
		on = !on
	case Stale:
		b.mu.Lock()
		on = b.stalePower
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !on:
		b.transitional = ""
		return "Off"
	case b.transitional == "PoweringOn":
		b.transitional = ""
		return "PoweringOn"
	case b.transitional != "":
		return b.transitional
	}
	return "On"
}

// transition records the state that quirk Transitions shows after an action.
func (b *BMC) transition(action Action, powered bool) {
	if !b.p.Quirks.Transitions {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case action == Shutdown && powered:
		b.transitional = "PoweringOff"
	case action == On && !powered:
		b.transitional = "PoweringOn"
	case action == Off || action == Reset:
		b.transitional = ""
	}
}

// actionOf returns the machine's action for a ResetType.
func actionOf(resetType string) (Action, bool) {
	switch resetType {
	case "On", "ForceOn":
		return On, true
	case "ForceOff":
		return Off, true
	case "GracefulShutdown":
		return Shutdown, true
	case "GracefulRestart":
		return Reboot, true
	case "ForceRestart", "PowerCycle":
		return Reset, true
	case "Nmi":
		return "", true // handled by the operating system
	}
	return "", false
}

func (b *BMC) reset(r resource.Request) resource.Answer {
	var body struct{ ResetType string }
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	name := "Reset " + body.ResetType
	action, ok := actionOf(body.ResetType)
	if body.ResetType == "PushPowerButton" {
		if action, ok = On, true; b.cfg.Machine.Powered() {
			action = Shutdown
		}
	}
	if !ok || !slices.Contains(b.resetTypes(), body.ResetType) {
		return resource.Fail(http.StatusBadRequest, "ActionParameterValueNotInList", "ResetType is not in the list").Named(name)
	}
	if a, ok := b.refuseReset(action); !ok {
		return a.Named(name)
	}
	if action == "" {
		return resource.Done(name)
	}
	b.transition(action, b.cfg.Machine.Powered())
	if err := b.cfg.Machine.Power(context.Background(), action); err != nil {
		return resource.Fail(http.StatusInternalServerError, "InternalError", err.Error()).Named(name)
	}
	if b.services != nil {
		b.services.journal.Append("OK", "Power control: "+body.ResetType+".")
	}
	return resource.Done(name)
}

// refuseReset applies the quirks of power actions; ok accepts the action.
func (b *BMC) refuseReset(action Action) (a resource.Answer, ok bool) {
	q, powered := b.p.Quirks, b.cfg.Machine.Powered()
	if q.SamePowerStatus != 0 && powered == (action == On) {
		id, state := "IDRAC.2.8.PSU501", map[bool]string{true: "on", false: "off"}[powered]
		if b.p.Vendor == "HPE" {
			id = "iLO.2.14.InvalidOperationForSystemState"
		}
		return resource.Fail(q.SamePowerStatus, id, "The operation was not successful because the server is powered "+state+"."), false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case action == Off:
		b.conflicts = q.OnConflicts
	case action == On && b.conflicts > 0:
		b.conflicts--
		return resource.Fail(http.StatusConflict, "ResourceInUse", "The change to the requested resource failed because the resource is in use or in transition."), false
	}
	return resource.Answer{}, true
}

func (b *BMC) resetManager(r resource.Request) resource.Answer {
	var body struct{ ResetType *string }
	if a, ok := r.Decode(&body); !ok && len(r.Body) > 0 {
		return a.Named(actionResetBMC)
	}
	switch {
	case b.p.Quirks.ResetWithoutType && body.ResetType != nil:
		return resource.Fail(http.StatusBadRequest, "ActionParameterUnknown", "ResetType is unknown").Named(actionResetBMC)
	case !b.p.Quirks.ResetWithoutType && (body.ResetType == nil || !slices.Contains(b.p.ManagerResetTypes, *body.ResetType)):
		return resource.Fail(http.StatusBadRequest, "ActionParameterValueNotInList", "ResetType is not in the list").Named(actionResetBMC)
	}
	return resource.Done(actionResetBMC)
}

// Down starts a restart of the BMC: connections break, new ones are refused, and all sessions end.
// The server keeps running. Up ends it.
func (b *BMC) Down() {
	if b.services != nil {
		b.services.events.Break()
	}
	b.endpoint.Down()
	b.sessions.Forget()
}

// Up ends Down and applies BMC firmware that waited for a restart.
func (b *BMC) Up() error {
	if b.services != nil {
		b.services.tasks.Signal(task.ManagerReset)
	}
	return b.endpoint.Up()
}

// Reboot restarts the BMC, which is unreachable for this time. It does not wait.
func (b *BMC) Reboot(gone time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	b.handlers.Go(func() {
		b.Down()
		t := time.NewTimer(gone)
		defer t.Stop()
		select {
		case <-b.closed:
			return
		case <-t.C:
		}
		for b.Up() != nil { // the port is taken: try again
			select {
			case <-b.closed:
				return
			case <-time.After(gone/10 + time.Millisecond):
			}
		}
	})
}

// SetAuthority changes the certificate and breaks all connections.
func (b *BMC) SetAuthority(a *Authority) { b.endpoint.SetAuthority(a) }

// SetPassword changes the password of the account, as another administrator would; Password
// returns the current one.
func (b *BMC) SetPassword(password string) { b.sessions.SetPassword(password) }

// Password returns the current password of the account.
func (b *BMC) Password() string { return b.sessions.Password() }

// SetHealth sets the health of a part ("Fan 1", "PSU 2", "Inlet", "CPU 1", "DIMM 2", "Drive 1") to
// "OK", "Warning" or "Critical". A bare BMC ignores it.
func (b *BMC) SetHealth(part, health string) {
	if b.services != nil {
		b.services.hardware.SetHealth(part, health)
		b.services.journal.Append(health, fmt.Sprintf("%s is %s.", part, health))
		b.services.sendHealth(part, health)
	}
}

// Media returns the slots for virtual media; nil for a bare BMC.
func (b *BMC) Media() []media.Slot {
	if b.services == nil {
		return nil
	}
	return b.services.media.Slots()
}

// Firmware returns the active versions of the server's firmware and of the BMC's.
func (b *BMC) Firmware() (bios, manager string) {
	if b.services == nil {
		return b.p.BIOSFirmware, b.p.BMCFirmware
	}
	return b.services.update.Version(update.BIOS), b.services.update.Version(update.BMC)
}

// PushedTo returns the targets of the last multipart push.
func (b *BMC) PushedTo() []string { return b.services.update.PushedTo() }

// PushedBytes counts the bytes of accepted firmware images.
func (b *BMC) PushedBytes() int64 {
	if b.services == nil {
		return 0
	}
	return b.services.update.Pushed()
}

// Subscriptions counts the event subscriptions.
func (b *BMC) Subscriptions() int {
	if b.services == nil {
		return 0
	}
	return b.services.events.Subscriptions()
}

// Lit reports whether the indicator LED is lit.
func (b *BMC) Lit() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lit
}

// starter is a Machine that counts its boots; a BootSetting does.
type starter interface{ Started() uint64 }

// boots returns the boots of the machine so far; 0 if the machine does not count them.
func (b *BMC) boots() uint64 {
	if m, ok := b.cfg.Machine.(starter); ok {
		return m.Started()
	}
	return 0
}

// catchUp applies what waited for the next boot, if the machine has booted since. It runs before
// each request, so that no goroutine waits for the machine.
func (b *BMC) catchUp() {
	now := b.boots()
	b.mu.Lock()
	if now == b.started {
		b.mu.Unlock()
		return
	}
	b.started, b.refusals = now, b.p.Quirks.POSTRefusals
	b.mu.Unlock()
	if b.services != nil {
		b.services.booted()
	}
}
