// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// saveTime bounds the write of a BMC's answer, also while the manager stops: without it the task of
// the update would be lost.
const saveTime = 10 * time.Second

// outcome is the meaning of the answer to a write.
type outcome int

const (
	// accepted: the BMC has the write, or may have it. It is read back, and not repeated (I17).
	accepted outcome = iota
	// rejected: the BMC does not accept it.
	rejected
	// unsent: the write did not reach the BMC.
	unsent
)

func outcomeOf(err error) outcome {
	var rests *bmc.PausedError
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, bmc.ErrUnsent) && !errors.Is(err, bmc.ErrNotSupported):
		return unsent
	case errors.As(err, &rests), errors.Is(err, bmc.ErrPoolClosed), errors.Is(err, bmc.ErrUnauthorized), errors.Is(err, bmc.ErrCertificate), errors.Is(err, bmc.ErrUnreachable):
		return unsent
	case errors.Is(err, bmc.ErrTimeout), errors.Is(err, bmc.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// Canceled: the manager stops, and has closed the session during the call.
		return accepted
	case errors.Is(err, bmc.ErrRateLimited), errors.Is(err, bmc.ErrBusy):
		return unsent
	}
	return rejected
}

// writeSettings writes settings to the BMC, and remembers that it did.
func (p *Preparer) writeSettings(ctx context.Context, v View, step lifecycle.WriteSettings) error {
	if step.Ledger != nil {
		if err := p.saveLedger(ctx, v.Host, *step.Ledger); err != nil {
			return err
		}
	}
	added := false
	err := p.BMC.Do(ctx, v.Target, func(ctx context.Context, conn bmc.Conn) error {
		settings, err := withSecureBoot(ctx, conn, v.Host, step.Settings)
		if err != nil {
			return err
		}
		added = len(settings) > len(step.Settings)
		return conn.SetSettings(ctx, settings)
	})
	if added && err == nil {
		p.Warn(v.Host, infrav1.ReasonSecureBootOff, "Secure Boot is off, but spec.bootMode requires it. Ingot enables it with the other settings at the next start.")
	}
	var invalid *bmc.SettingError
	switch {
	case errors.As(err, &invalid), errors.Is(err, bmc.ErrNotSupported):
		v.remember(func(m *Memory) {
			reading := *m.reading
			reading.RefusedReason, reading.Refused = infrav1.ReasonSettingsRejected, p.settingsRefusal(err, invalid, step.Settings)
			m.reading = &reading
		})
	case outcomeOf(err) == unsent:
		return p.unsentSettings(ctx, v, step, err)
	case outcomeOf(err) == rejected:
		v.remember(func(m *Memory) {
			reading := *m.reading
			reading.Tried, reading.TryError = true, p.Stable(err.Error())
			m.tried, m.tryError, m.reading = true, reading.TryError, &reading
		})
	default:
		p.clearAccess(v)
		v.remember(func(m *Memory) { m.tried, m.reading = true, nil })
	}
	return nil
}

// withSecureBoot adds Secure Boot to the settings of a host that must not boot without it, if it is
// off and is one of the settings. While settings wait for the boot, an iDRAC accepts no others, and
// Ingot does not boot the host before Secure Boot is set.
func withSecureBoot(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost, settings map[string]string) (map[string]string, error) {
	if host.Spec.BootMode != infrav1.BootModeUEFISecureBoot {
		return settings, nil
	}
	state, err := conn.SecureBoot(ctx)
	switch {
	case errors.Is(err, bmc.ErrNotSupported):
		return settings, nil // the boot reports it
	case err != nil:
		return nil, fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	case state.Setting.Name == "":
		return settings, nil
	}
	name, on := state.Setting.Name, state.Setting.On
	own, wanted := settings[name]
	switch {
	case wanted && own != on:
		return nil, &bmc.SettingError{Name: name, Value: own, Reason: "spec.bootMode UEFISecureBoot requires " + on}
	case wanted || state.Enabled:
		return settings, nil
	case isInUse(host):
		return nil, fmt.Errorf("%w: Secure Boot is off, but spec.bootMode requires it at Ingot's next boot. The host is in use, and its system may not start with Secure Boot. "+
			"Enable it yourself, or set spec.bootMode to UEFI", bmc.ErrUnsent)
	}
	settings = maps.Clone(settings)
	settings[name] = on
	return settings, nil
}

// isInUse reports whether a claimed system runs on the host, which Ingot must not change (I2).
func isInUse(host *infrav1.IngotHost) bool {
	return host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioned
}

// unsentSettings defers the settings, and uncounts the attempt: the BMC was not reached.
func (p *Preparer) unsentSettings(ctx context.Context, v View, step lifecycle.WriteSettings, err error) error {
	unreachable := p.deferAccess(v, err)
	if step.Ledger != nil {
		save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
		defer cancel()
		if err := p.undoAttempt(save, v.Host, *step.Ledger); err != nil {
			return err
		}
	}
	if unreachable != nil {
		return &BMCError{unreachable}
	}
	return nil
}

// undoAttempt uncounts an attempt, if the host still has the state of that attempt.
func (p *Preparer) undoAttempt(ctx context.Context, host *infrav1.IngotHost, counted lifecycle.Ledger) error {
	live := &infrav1.IngotHost{}
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(host), live)
	if apierrors.IsNotFound(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("read host %s after unsent settings: %w", host.Name, err)
	}
	if live.UID != host.UID || live.Spec.Record == nil || !equality.Semantic.DeepEqual(live.Spec.Record.Preparation, counted.Record.Preparation) {
		return ErrStale
	}
	next := live.DeepCopy()
	next.Spec.Record.Preparation.Attempt--
	return p.Save(ctx, next, live)
}

// settingsRefusal explains why settings were refused.
func (p *Preparer) settingsRefusal(err error, invalid *bmc.SettingError, wanted map[string]string) string {
	if invalid != nil {
		field := "spec.bios.settings: "
		if _, found := wanted[invalid.Name]; !found {
			field = "spec.bootMode is UEFISecureBoot: "
		}
		return field + invalid.Error()
	}
	return "the BMC cannot set BIOS settings: " + p.Stable(err.Error())
}

// startUpdate checks the image, and starts the delivery that the step names.
func (p *Preparer) startUpdate(ctx context.Context, v View, step lifecycle.StartUpdate) error {
	pushes := step.Delivery() == infrav1.DeliveryPush
	key := imageKey{url: step.Component.URL, checksum: step.Component.Checksum, keep: pushes}
	if pushes || key.checksum != "" {
		read, err := p.checkImage(v, key)
		switch {
		case !read:
			purpose := " for its checksum"
			if pushes {
				purpose = ", to push it to the BMC"
			}
			reason := "Ingot reads the image at " + hostOf(key.url) + purpose
			if p.Jobs.waitsForSlot(key) {
				reason += fmt.Sprintf(" after others: it reads %d at once, and %d from one server or for one namespace", imagesAtOnce, imagesPerKey)
			}
			p.awaitJob(v, reason)
			return nil
		case errors.Is(err, errNoImage):
			p.deferUpdate(v, p.Stable(err.Error()), 0)
			return nil
		case err != nil:
			return p.saveLedger(ctx, v.Host, step.Refused(err.Error()))
		}
	}
	if pushes {
		return p.startPush(ctx, v, step, key)
	}
	return p.startFetch(ctx, v, step)
}

// startFetch records the update, has the BMC install it, and records the answer. If the manager ends
// in between, the update is looked for on the BMC, and not sent again (I17).
func (p *Preparer) startFetch(ctx context.Context, v View, step lifecycle.StartUpdate) error {
	if err := p.saveLedger(ctx, v.Host, step.Ledger); err != nil {
		return err
	}
	v.Forget()
	var task bmc.Task
	err := p.BMC.Do(ctx, v.Target, func(ctx context.Context, conn bmc.Conn) (err error) {
		task, err = conn.UpdateFirmware(ctx, bmc.Update{URL: step.Component.URL})
		return err
	})
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	switch result := outcomeOf(err); {
	case err == nil:
		return p.saveUpdate(save, v.Host, step.Accepted(task.ID))
	case result == rejected:
		return p.saveUpdate(save, v.Host, step.Refused(p.Stable(err.Error())))
	case result == unsent:
		if err := p.saveUpdate(save, v.Host, step.Unsent()); err != nil {
			return err
		}
		reason, minDelay := p.unsentReason(err)
		p.deferUpdate(v, reason, minDelay)
	}
	return nil
}

// unsentReason returns why an update did not reach the BMC, and the delay that the BMC asks for.
func (p *Preparer) unsentReason(err error) (reason string, minDelay time.Duration) {
	minDelay = bmc.RetryAfter(err)
	var rests *bmc.PausedError
	if errors.As(err, &rests) {
		err = rests.Err // without the rest's remaining time, which differs each time
	}
	return p.Stable(err.Error()), minDelay
}

// saveUpdate writes the result of an update into the host as the API server has it, if the host still
// has that update.
func (p *Preparer) saveUpdate(ctx context.Context, host *infrav1.IngotHost, result lifecycle.Ledger) error {
	live := &infrav1.IngotHost{}
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(host), live)
	if apierrors.IsNotFound(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("read host %s during update: %w", host.Name, err)
	}
	if live.UID != host.UID || live.Spec.Record == nil || live.Spec.Record.Preparation == nil || live.Spec.Record.Preparation.Update == nil {
		return ErrStale
	}
	next := live.DeepCopy()
	next.Spec.Record.Preparation.Update = result.Record.Preparation.Update
	return p.Save(ctx, next, live)
}

// resetBMC records the restart, then restarts the BMC. A failure only causes an event: the result of
// the update is read later.
func (p *Preparer) resetBMC(ctx context.Context, v View, step lifecycle.ResetBMC) error {
	if err := p.saveLedger(ctx, v.Host, step.Ledger); err != nil {
		return err
	}
	v.Forget()
	err := p.BMC.Do(ctx, v.Target, func(ctx context.Context, conn bmc.Conn) error { return conn.ResetBMC(ctx) })
	if err != nil && outcomeOf(err) != accepted {
		p.Warn(v.Host, infrav1.ReasonFirmwareUpdateFailed, "Could not restart the BMC for the update: "+p.Stable(err.Error())+
			". Ingot still looks for the new version. If it does not appear, restart the BMC yourself.")
	}
	return nil
}

// saveLedger writes claim, record and order on the version of the host that was decided on.
func (p *Preparer) saveLedger(ctx context.Context, host *infrav1.IngotHost, ledger lifecycle.Ledger) error {
	next := host.DeepCopy()
	ledger.Apply(next)
	return p.Save(ctx, next, host)
}
