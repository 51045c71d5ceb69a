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

// saveTime bounds the note of what a BMC answered to an update, also while the
// manager stops: without it the update's task would be lost from sight.
const saveTime = 10 * time.Second

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
	var rests *bmc.RestError
	switch {
	case err == nil:
		return taken
	case errors.Is(err, bmc.ErrUnsent) && !errors.Is(err, bmc.ErrNotSupported):
		return unsent
	case errors.As(err, &rests), errors.Is(err, bmc.ErrPoolClosed), errors.Is(err, bmc.ErrUnauthorized), errors.Is(err, bmc.ErrCertificate), errors.Is(err, bmc.ErrUnreachable):
		return unsent
	case errors.Is(err, bmc.ErrTimeout), errors.Is(err, bmc.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// Canceled: the manager stops, and closed the session under the call.
		return taken
	case errors.Is(err, bmc.ErrRateLimited), errors.Is(err, bmc.ErrBusy):
		return unsent
	}
	return refused
}

// writeSettings asks the BMC for settings, and remembers that it did.
func (p *Preparer) writeSettings(ctx context.Context, v View, step lifecycle.WriteSettings) error {
	if step.Ledger != nil {
		if err := p.replaceLedger(ctx, v.Host, *step.Ledger); err != nil {
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
		p.Warn(v.Host, infrav1.ReasonSecureBootOff, "Secure Boot is off, and spec.bootMode asks for it. Ingot has it switched on with the other settings, for the next start")
	}
	var misfit *bmc.SettingError
	switch {
	case errors.As(err, &misfit), errors.Is(err, bmc.ErrNotSupported):
		v.remember(func(m *Memory) {
			reading := *m.reading
			reading.RefusedReason, reading.Refused = infrav1.ReasonSettingsRefused, p.why(err, misfit, step.Settings)
			m.reading = &reading
		})
	case verdictOf(err) == unsent:
		return p.unsentSettings(ctx, v, step, err)
	case verdictOf(err) == refused:
		v.remember(func(m *Memory) {
			reading := *m.reading
			reading.Tried, reading.TryError = true, p.Stable(err.Error())
			m.tried, m.tryError, m.reading = true, reading.TryError, &reading
		})
	default:
		p.succeeded(v)
		v.remember(func(m *Memory) { m.tried, m.reading = true, nil })
	}
	return nil
}

// withSecureBoot adds Secure Boot to the settings of a host that must not boot without it,
// where it is off and is one of the settings: once they wait for the boot, an iDRAC takes
// no other before it, and Ingot does not boot the host before it has taken that one.
func withSecureBoot(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost, settings map[string]string) (map[string]string, error) {
	if host.Spec.BootMode != infrav1.BootModeUEFISecureBoot {
		return settings, nil
	}
	state, err := conn.SecureBoot(ctx)
	switch {
	case errors.Is(err, bmc.ErrNotSupported):
		return settings, nil // the boot says so
	case err != nil:
		return nil, fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	case state.Setting.Name == "":
		return settings, nil
	}
	name, on := state.Setting.Name, state.Setting.On
	own, wanted := settings[name]
	switch {
	case wanted && own != on:
		return nil, &bmc.SettingError{Name: name, Value: own, Why: "spec.bootMode is UEFISecureBoot, for which it must be " + on}
	case wanted || state.Enabled:
		return settings, nil
	case inUse(host):
		return nil, fmt.Errorf("%w: Secure Boot is off, and spec.bootMode asks for it from Ingot's next boot on, which it could not be switched on for any more while other settings wait; "+
			"the host is in use, and its system may not start with it: switch it on yourself, or set spec.bootMode to UEFI", bmc.ErrUnsent)
	}
	settings = maps.Clone(settings)
	settings[name] = on
	return settings, nil
}

// inUse: what runs on the host is not Ingot's to change (I2).
func inUse(host *infrav1.IngotHost) bool {
	return host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioned
}

// unsentSettings puts the settings off, and takes back that they were written: what the
// BMC never heard of is no attempt.
func (p *Preparer) unsentSettings(ctx context.Context, v View, step lifecycle.WriteSettings, err error) error {
	failed := p.failed(v, err)
	if step.Ledger != nil {
		save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
		defer cancel()
		if err := p.uncount(save, v.Host, *step.Ledger); err != nil {
			return err
		}
	}
	if failed != nil {
		return &BMCError{failed}
	}
	return nil
}

// uncount writes the preparation as it was before an attempt was counted, if the ledger
// still speaks of that one.
func (p *Preparer) uncount(ctx context.Context, host *infrav1.IngotHost, counted lifecycle.Ledger) error {
	live := &infrav1.IngotHost{}
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(host), live)
	if apierrors.IsNotFound(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("live read of the host whose settings were not written: %w", err)
	}
	if live.UID != host.UID || live.Spec.Record == nil || !equality.Semantic.DeepEqual(live.Spec.Record.Preparation, counted.Record.Preparation) {
		return ErrStale
	}
	next := live.DeepCopy()
	next.Spec.Record.Preparation.Attempts--
	return p.Save(ctx, next, live)
}

// why is what a person is told of a refused setting.
func (p *Preparer) why(err error, misfit *bmc.SettingError, wanted map[string]string) string {
	if misfit != nil {
		field := "spec.bios.settings: "
		if _, asked := wanted[misfit.Name]; !asked {
			field = "spec.bootMode is UEFISecureBoot: "
		}
		return field + misfit.Error()
	}
	return "the BMC cannot set BIOS settings: " + p.Stable(err.Error())
}

// startUpdate has the image checked, and gives it to the BMC by the way that the ledger
// says.
func (p *Preparer) startUpdate(ctx context.Context, v View, step lifecycle.StartUpdate) error {
	pushes := step.Delivery() == infrav1.DeliveryPush
	key := imageOf(step.Component, pushes)
	if pushes || key.checksum != "" {
		read, err := p.checkImage(v, key)
		switch {
		case !read:
			purpose := " for its checksum"
			if pushes {
				purpose = ", to push it to the BMC"
			}
			why := "Ingot reads the image at " + hostOf(key.url) + purpose
			if p.Works.waitsForTurn(key) {
				why += fmt.Sprintf(", as soon as it is its turn: %d are read at once, %d of them from one server or for one namespace", imagesAtOnce, imagesOfOne)
			}
			p.await(v, why)
			return nil
		case errors.Is(err, errNoImage):
			p.putOffUpdate(v, p.Stable(err.Error()), 0)
			return nil
		case err != nil:
			return p.replaceLedger(ctx, v.Host, step.Refused(err.Error()))
		}
	}
	if pushes {
		return p.startPush(ctx, v, step, key)
	}
	return p.startFetch(ctx, v, step)
}

// startFetch notes the update, then has the BMC install it, then notes the answer. A
// manager that dies in between leaves an update of which nobody knows whether the BMC
// has it: it is looked for, and not sent again (I17).
func (p *Preparer) startFetch(ctx context.Context, v View, step lifecycle.StartUpdate) error {
	if err := p.replaceLedger(ctx, v.Host, step.Ledger); err != nil {
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
	switch verdict := verdictOf(err); {
	case err == nil:
		return p.noteUpdate(save, v.Host, step.Accepted(task.ID))
	case verdict == refused:
		return p.noteUpdate(save, v.Host, step.Refused(p.Stable(err.Error())))
	case verdict == unsent:
		if noteErr := p.noteUpdate(save, v.Host, step.Unsent()); noteErr != nil {
			return noteErr
		}
		why, least := p.restsFor(err)
		p.putOffUpdate(v, why, least)
	}
	return nil
}

// restsFor is why the BMC did not hear of an update, and how long it asks to be left alone.
func (p *Preparer) restsFor(err error) (why string, least time.Duration) {
	least = bmc.RetryAfter(err)
	var rests *bmc.RestError
	if errors.As(err, &rests) {
		err = rests.Err // how long the rest lasts differs each time
	}
	return p.Stable(err.Error()), least
}

// noteUpdate writes what became of an update into the ledger as it is now, if it is
// still about that update.
func (p *Preparer) noteUpdate(ctx context.Context, host *infrav1.IngotHost, noted lifecycle.Ledger) error {
	live := &infrav1.IngotHost{}
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(host), live)
	if apierrors.IsNotFound(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("live read of the host under update: %w", err)
	}
	if live.UID != host.UID || live.Spec.Record == nil || live.Spec.Record.Preparation == nil || live.Spec.Record.Preparation.Update == nil {
		return ErrStale
	}
	next := live.DeepCopy()
	next.Spec.Record.Preparation.Update = noted.Record.Preparation.Update
	return p.Save(ctx, next, live)
}

// resetBMC notes the restart, then asks for it. What becomes of the update is seen.
func (p *Preparer) resetBMC(ctx context.Context, v View, step lifecycle.ResetBMC) error {
	if err := p.replaceLedger(ctx, v.Host, step.Ledger); err != nil {
		return err
	}
	v.Forget()
	err := p.BMC.Do(ctx, v.Target, func(ctx context.Context, conn bmc.Conn) error { return conn.ResetBMC(ctx) })
	if err != nil && verdictOf(err) != taken {
		p.Warn(v.Host, infrav1.ReasonFirmwareUpdateFailed, "The BMC could not be restarted for the update: "+p.Stable(err.Error())+
			". Ingot looks for the new version all the same; restart the BMC by hand if it does not show")
	}
	return nil
}

// replaceLedger writes claim, record and order on the version that was decided on.
func (p *Preparer) replaceLedger(ctx context.Context, host *infrav1.IngotHost, ledger lifecycle.Ledger) error {
	next := host.DeepCopy()
	ledger.Apply(next)
	return p.Save(ctx, next, host)
}
