// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/pxe"
)

// BootServer is where BMCs and firmware find a boot server.
type BootServer struct {
	// URL is its HTTP address as http://host:port, without a slash at the end.
	URL string
	// Ticket makes the secret part of the address of a host's CD image, for the order
	// that the host has now.
	Ticket func(host *infrav1.IngotHost) string
}

// bootAgent has the host boot the agent once, in the way that its spec says, and
// switches it on.
func (r *Reconciler) bootAgent(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) error {
	if err := r.secureBoot(ctx, conn, host); err != nil {
		return err
	}
	overrides, err := r.overrides(ctx, conn, host)
	if err != nil {
		return err
	}
	if err := r.override(ctx, conn, host, overrides); err != nil {
		return err
	}
	return conn.SetPower(ctx, bmc.ActionOn)
}

// secureBoot sees to it that a host which must not start anything unsigned does not.
// It fails where the BMC does not say so: the boot would be worth less than it is
// told to be.
func (r *Reconciler) secureBoot(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) error {
	if host.Spec.BootMode != infrav1.BootModeUEFISecureBoot {
		return nil
	}
	state, err := conn.SecureBoot(ctx)
	if err != nil {
		return err
	}
	if !state.Enforced() {
		return fmt.Errorf("%w: Secure Boot is in %s, where the firmware starts what nobody has signed; enrol a platform key in its setup", bmc.ErrNotSupported, state.Mode)
	}
	if state.Enabled {
		return nil
	}
	r.event(host, infrav1.ReasonSecureBootOff, "Secure Boot is off, and spec.bootMode asks for it. Ingot has the BMC switch it on for the next start")
	return conn.SetSecureBoot(ctx, true)
}

// overrides puts the image into the drive where there is to be one, and returns what
// the BMC is to be told, the best first.
func (r *Reconciler) overrides(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) ([]bmc.BootOverride, error) {
	mode := firmwareMode(host.Spec.BootMode)
	switch lifecycle.BootMethodOf(host) {
	case infrav1.BootMethodHTTP:
		mac, err := net.ParseMAC(host.Spec.BootMACAddress)
		if err != nil {
			return nil, fmt.Errorf("spec.bootMACAddress: %w", err)
		}
		// Where the BMC knows no address to tell, the firmware asks DHCP, and is told it.
		return []bmc.BootOverride{
			{Target: bmc.BootHTTP, Mode: mode, HTTPBootURI: r.Boot.URL + pxe.UnifiedPath(mac)},
			{Target: bmc.BootHTTP, Mode: mode},
		}, nil
	case infrav1.BootMethodVirtualMedia:
		if err := insert(ctx, conn, r.Boot.URL+pxe.DiscPath(r.Boot.Ticket(host))); err != nil {
			return nil, err
		}
		return []bmc.BootOverride{{Target: bmc.BootCD, Mode: mode}}, nil
	default:
		return []bmc.BootOverride{{Target: bmc.BootPXE, Mode: mode}}, nil
	}
}

// firmwareMode is what a BMC calls a boot mode.
func firmwareMode(mode infrav1.BootMode) bmc.BootMode {
	if mode == infrav1.BootModeUEFISecureBoot {
		return bmc.ModeUEFI
	}
	return bmc.BootMode(mode)
}

// insert puts the image at an address into the virtual drive. When the answer is lost
// it looks whether it is there (I17).
func insert(ctx context.Context, conn bmc.Conn, image string) error {
	_, err := conn.InsertMedia(ctx, bmc.MediaCD, image)
	if !errors.Is(err, bmc.ErrUnknownOutcome) {
		return err
	}
	slots, lookErr := conn.MediaSlots(ctx)
	if lookErr != nil {
		return lookErr
	}
	for _, slot := range slots {
		if slot.Inserted && slot.Image == image {
			return nil
		}
	}
	return fmt.Errorf("%w: the drive does not show the image: %v", bmc.ErrNotApplied, err) //nolint:errorlint // the outcome is known now
}

// override sets the first of the overrides that the BMC takes. A host that boots by PXE
// is as well off where the BMC takes none, or forgets it: it asks our boot server by its
// own boot order (field notes). One whose boot the BMC is to name is not: what it started
// without would be another boot than it is told to have (decision 0151), and the error
// keeps it off.
func (r *Reconciler) override(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost, overrides []bmc.BootOverride) error {
	var err error
	for _, override := range overrides {
		err = conn.SetBootOverride(ctx, override)
		if errors.Is(err, bmc.ErrUnknownOutcome) {
			err = readBack(ctx, conn, override, err)
		}
		if errors.Is(err, bmc.ErrOverrideStays) {
			r.event(host, infrav1.ReasonBootOverrideNotApplied, "The BMC keeps the boot override for every start, not for one. Ingot boots the agent; "+
				"later starts reach the disk, since Ingot ejects its CD, or its boot server starts the disk")
			return nil
		}
		if !errors.Is(err, bmc.ErrNotSupported) && !errors.Is(err, bmc.ErrNotApplied) {
			return err
		}
	}
	if method := lifecycle.BootMethodOf(host); method != infrav1.BootMethodPXE {
		return fmt.Errorf("the %s boot for the next start: %w; the host stays off, since its own boot order may begin elsewhere", method, err)
	}
	r.event(host, infrav1.ReasonBootOverrideNotApplied, fmt.Sprintf("The BMC did not take the PXE boot for the next start: %v"+
		". Ingot powers the host on all the same; its own boot order must have the network first", err))
	return nil
}

// maxEjections bounds how often a BMC is asked to empty its drive.
const maxEjections = 4

// ejectMedia takes Ingot's image out of the virtual drive, and then forgets it. A BMC
// that cannot, or does not in a few tries, is told of once and left alone: the image's
// address is dead when its order is, and fencing and deadlines wait behind this.
func (r *Reconciler) ejectMedia(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.waits().Soon, err
	}
	err := r.do(ctx, seen.target, eject)
	known := r.contacts.of(host)
	known.ejections++
	last := err == nil || known.ejections >= maxEjections || errors.Is(err, bmc.ErrNotSupported)
	if last {
		known.ejections = 0
	}
	r.contacts.keep(host, known)
	seen.known.ejections = known.ejections
	switch {
	case err != nil && last:
		r.event(host, infrav1.ReasonMediaNotEjected, "Ingot's CD image may still be in the BMC's virtual drive: "+err.Error()+
			". Take it out by hand: it boots nothing any more, and may keep the server from its disk")
	case errors.Is(err, bmc.ErrUnknownOutcome), errors.Is(err, bmc.ErrNotApplied):
		return r.waits().Settle, nil // it is looked for again, and taken out again (I17)
	case err != nil:
		// No order to switch the server: those go on as they stand.
		return r.bmcFailed(host, seen, decision, r.failed(host, seen.known, err, r.Clock.Now())), nil
	}
	return r.waits().Soon, r.saveLedger(ctx, host, lifecycle.SaveLedger{Ledger: lifecycle.WithoutMedia(host)}, false)
}

// eject empties the drives that show an image of Ingot's, and leaves those that a person
// put one into. Where none shows Ingot's, and one is not empty whose image cannot be told
// to be a person's, it fails with bmc.ErrNotSupported: that may be Ingot's, and another
// look shows no more.
func eject(ctx context.Context, conn bmc.Conn) error {
	slots, err := conn.MediaSlots(ctx)
	if err != nil {
		return err
	}
	var errs []error
	var unclear string
	for _, slot := range slots {
		image, err := url.Parse(slot.Image)
		switch {
		case !slot.Inserted:
		case err == nil && pxe.IsDiscPath(image.Path):
			errs = append(errs, conn.EjectMedia(ctx, slot.ID))
		case slices.Contains(slot.Kinds, bmc.MediaCD) && (err != nil || image.Host == ""):
			unclear = slot.ID
		}
	}
	if len(errs) == 0 && unclear != "" {
		return fmt.Errorf("%w: drive %s is not empty and does not show where its image is from", bmc.ErrNotSupported, unclear)
	}
	return errors.Join(errs...)
}
