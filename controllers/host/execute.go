// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/pxe"
)

// errStale means that the host changed since it was read and the step was not executed.
var errStale = errors.New("the host changed since it was read")

func isRetry(err error) bool {
	return errors.Is(err, errStale) || errors.Is(err, firmware.ErrStale) || errors.Is(err, bmccredentials.ErrStale) ||
		errors.Is(err, ipam.ErrStale) || errors.Is(err, rotation.ErrStale)
}

// execute executes the step of the decision. It returns when to reconcile again; 0 leaves that
// to requeueAfter. base is the host as it was read, plus the status that execute saves. The
// decision changes if the step failed.
func (r *Reconciler) execute(ctx context.Context, host, base *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	ctx = r.withIdentityGuard(ctx, host, seen)
	switch step := decision.Step.(type) {
	case lifecycle.PowerOn, lifecycle.PowerOff, lifecycle.Restart, lifecycle.BootAgent:
		return r.executePower(ctx, host, base, seen, decision)
	case lifecycle.EjectMedia:
		return r.ejectMedia(ctx, host, seen, decision)
	case lifecycle.SaveLedger:
		return r.saved(ctx, host, *decision, r.saveLedger(ctx, host, step, decision.RefusesCommands))
	case lifecycle.RecordAddress:
		return r.recordAddress(ctx, host, seen, decision)
	case lifecycle.RemoveFinalizer:
		return r.saved(ctx, host, *decision, r.removeFinalizer(ctx, host))
	}
	if firmware.IsStep(decision.Step) {
		return r.executeFirmware(ctx, host, seen, decision)
	}
	return 0, nil // Idle, Wait
}

// executePower executes a power action. State that must survive a crash is saved before the
// call to the BMC.
func (r *Reconciler) executePower(ctx context.Context, host, base *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.timing().Conflict, err
	}
	if _, ok := decision.Step.(lifecycle.Restart); ok {
		// The command is removed first: an operator notices a lost reboot and repeats the
		// command, but cannot undo a second reboot.
		next := host.DeepCopy()
		inventory.TakeCommand(next, infrav1.RebootAnnotation)
		if err := r.saveCommands(ctx, next, host); err != nil {
			return r.timing().Conflict, err
		}
	}
	if lifecycle.IsHeld(base) { // the host was seen off: boot servers may follow its order again
		host.Status.Power = seen.Power
	}
	if err := r.saveResetTime(ctx, host, base, decision.Step); err != nil {
		return 0, err
	}
	viewOf(host, seen).Forget()
	r.keepFirmware(host, seen)
	r.logStep(ctx, host, *decision)
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error {
		return r.callPower(ctx, conn, host, decision.Step)
	})
	if err != nil && !errors.Is(err, bmc.ErrUnknownOutcome) {
		return r.powerFailed(host, seen, decision, err), nil
	}
	known := r.memory.bmcOf(host)
	known.boots = known.boots.accepted(host.Spec.Order, decision.Step, r.Clock.Now())
	known.acks = known.acks.sent(decision.Step)
	if err != nil {
		known.acks = known.acks.unanswered(seen.Power)
	}
	if off, isOff := decision.Step.(lifecycle.PowerOff); isOff {
		if off.Graceful {
			host.Status.SoftPowerOffTime = host.Status.LastResetTime
		}
		if err == nil {
			known.offProof = known.offProof.Ordered(host)
		}
	}
	r.memory.keepBMC(host, known)
	return r.timing().PowerSettle, nil // then read the power state: a lost answer is not repeated (I17)
}

// saveResetTime saves the time of a power action before the action, so that no crash leads to
// two actions at once. The time of a graceful shutdown is saved only after the BMC accepted
// the request: a repeated request is harmless, but a system that got none would lose power
// without warning (I7).
func (r *Reconciler) saveResetTime(ctx context.Context, host, base *infrav1.IngotHost, step lifecycle.Step) error {
	host.Status.LastResetTime = metav1.NewTime(r.Clock.Now())
	if _, isOff := step.(lifecycle.PowerOff); !isOff {
		host.Status.SoftPowerOffTime = metav1.Time{}
	}
	next := base.DeepCopy()
	next.Status.LastResetTime, next.Status.SoftPowerOffTime, next.Status.Power = host.Status.LastResetTime, host.Status.SoftPowerOffTime, host.Status.Power
	saved := *next.Status.DeepCopy()
	if err := r.Client.Status().Patch(ctx, next, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("save reset time of %s: %w", keyOf(host), err)
	}
	base.Status = saved
	return nil
}

func (r *Reconciler) callPower(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost, step lifecycle.Step) error {
	switch step := step.(type) {
	case lifecycle.BootAgent:
		return r.bootAgent(ctx, conn, host)
	case lifecycle.PowerOn:
		return conn.SetPower(ctx, bmc.ActionOn)
	case lifecycle.PowerOff:
		return setPower(ctx, conn, step.Graceful, bmc.ActionGracefulOff, bmc.ActionForceOff)
	case lifecycle.Restart:
		return setPower(ctx, conn, step.Graceful, bmc.ActionGracefulRestart, bmc.ActionForceRestart)
	}
	return fmt.Errorf("step %T is no power step", step)
}

// setPower sends the graceful action if it is requested and supported, else the forced one.
func setPower(ctx context.Context, conn bmc.Conn, graceful bool, soft, hard bmc.PowerAction) error {
	if graceful {
		err := conn.SetPower(ctx, soft)
		if !errors.Is(err, bmc.ErrNotSupported) {
			return err
		}
	}
	return conn.SetPower(ctx, hard)
}

// powerFailed counts and shows a power action that the BMC rejected.
func (r *Reconciler) powerFailed(host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision, err error) time.Duration {
	known := r.failed(host, seen.known, powerError(decision.Step, err), r.Clock.Now())
	known.acks = known.acks.refused(decision.Step, seen.Power).failedAs(known)
	known.boots = known.boots.refused(decision.Step)
	switch off, isOff := decision.Step.(lifecycle.PowerOff); {
	case isOff && off.Graceful:
		known.softOff = known.softOff.refused(r.Clock.Now())
	case isOff && seen.Power == infrav1.PowerStateOff && (errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrProtocol)):
		known.offProof = known.offProof.Refused(host)
	}
	return r.bmcFailed(host, seen, decision, known)
}

// bmcFailed shows a failure of the BMC and returns when to reconcile again.
func (r *Reconciler) bmcFailed(host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision, known bmcState) time.Duration {
	r.memory.keepBMC(host, known)
	seen.setBMC(host, known)
	*decision = lifecycle.Next(host, seen.Observation, r.Policy)
	return max(seen.RetryAt.Sub(r.Clock.Now()), r.timing().Conflict)
}

// saved logs a successful write to the API server and returns when to reconcile again.
func (r *Reconciler) saved(ctx context.Context, host *infrav1.IngotHost, decision lifecycle.Decision, err error) (time.Duration, error) {
	if err == nil {
		r.logStep(ctx, host, decision)
	}
	return r.timing().Conflict, err
}

func (r *Reconciler) recordAddress(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	problem, err := r.addressAllocator().Record(ctx, ipam.View{Host: host, Hardware: seen.hardware, Network: seen.network, Lost: seen.addressLost})
	if problem.Message != "" {
		seen.AddressReason, seen.AddressProblem = problem.Reason, problem.Message
		*decision = lifecycle.Next(host, seen.Observation, r.Policy)
		return r.Poll, nil
	}
	return r.saved(ctx, host, *decision, err)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, host *infrav1.IngotHost) error {
	if err := r.rotator(nil).Keep(ctx, host); err != nil {
		return err
	}
	next := host.DeepCopy()
	controllerutil.RemoveFinalizer(next, infrav1.HostFinalizer)
	return r.patchLocked(ctx, next, host)
}

// saveLedger writes claim, record and order by optimistic lock. refuses is set if their
// commands were rejected.
func (r *Reconciler) saveLedger(ctx context.Context, host *infrav1.IngotHost, step lifecycle.SaveLedger, refuses bool) error {
	next := host.DeepCopy()
	step.Ledger.Apply(next)
	for _, name := range step.RemoveAnnotations {
		delete(next.Annotations, name)
	}
	for _, name := range step.RemoveLabels {
		delete(next.Labels, name)
	}
	if !refuses {
		return r.saveCommands(ctx, next, host)
	}
	if err := r.patchLocked(ctx, next, host); err != nil {
		return err
	}
	for _, c := range inventory.NewCommands(host, next) {
		logCommand(ctx, "Rejecting a command", c)
	}
	return nil
}

func (r *Reconciler) saveCommands(ctx context.Context, next, host *infrav1.IngotHost) error {
	commands := inventory.NewCommands(host, next)
	if err := r.patchLocked(ctx, next, host); err != nil {
		return err
	}
	for _, c := range commands {
		logCommand(ctx, "Carrying out a command", c)
		r.recordNormal(host, infrav1.ReasonCommandExecuted, fmt.Sprintf("Carrying out the command %s, issued at %s by %s.",
			c.Name, c.RequestTime.UTC().Format(time.RFC3339), cmp.Or(c.User, "an unknown user")))
	}
	return nil
}

func logCommand(ctx context.Context, message string, c infrav1.HostCommand) {
	ctrl.LoggerFrom(ctx).Info(message, "command", c.Name, "time", c.RequestTime.UTC().Format(time.RFC3339), "user", c.User)
}

// patchLocked writes the host by optimistic lock. It returns errStale after a conflict: the
// decision was made on an old version.
func (r *Reconciler) patchLocked(ctx context.Context, next, host *infrav1.IngotHost) error {
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", keyOf(host), err)
	}
	return nil
}

// bootAgent sets a one-time boot of the agent by the boot method in the spec, and powers the
// host on.
func (r *Reconciler) bootAgent(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) error {
	if err := r.ensureSecureBoot(ctx, conn, host); err != nil {
		return err
	}
	overrides, err := r.bootOverrides(ctx, conn, host)
	if err != nil {
		return err
	}
	if err := r.setBootOverride(ctx, conn, host, overrides); err != nil {
		return err
	}
	return conn.SetPower(ctx, bmc.ActionOn)
}

// ensureSecureBoot enables Secure Boot if spec.bootMode requires it. It fails if the BMC cannot
// confirm it: the boot would be less trustworthy than Ingot reports.
func (r *Reconciler) ensureSecureBoot(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) error {
	if host.Spec.BootMode != infrav1.BootModeUEFISecureBoot {
		return nil
	}
	state, err := conn.SecureBoot(ctx)
	if err != nil {
		return err
	}
	if !state.IsEnforced() {
		return fmt.Errorf("%w: Secure Boot is in %s, in which the firmware starts unsigned code; enroll a platform key in the firmware setup", bmc.ErrNotSupported, state.Mode)
	}
	if state.Enabled {
		return nil
	}
	r.recordWarning(host, infrav1.ReasonSecureBootOff, "Secure Boot is off, but spec.bootMode requires it. Ingot enables it for the next boot.")
	return conn.SetSecureBoot(ctx, true)
}

// bootOverrides returns the boot overrides to try, the best first. For virtual media it also
// inserts the CD image.
func (r *Reconciler) bootOverrides(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) ([]bmc.BootOverride, error) {
	mode := bmc.BootMode(host.Spec.BootMode)
	if host.Spec.BootMode == infrav1.BootModeUEFISecureBoot {
		mode = bmc.ModeUEFI
	}
	switch lifecycle.BootMethodOf(host) {
	case infrav1.BootMethodHTTP:
		mac, err := net.ParseMAC(host.Spec.BootMACAddress)
		if err != nil {
			return nil, fmt.Errorf("spec.bootMACAddress: %w", err)
		}
		// If the BMC accepts no URL, the firmware gets the URL by DHCP.
		return []bmc.BootOverride{
			{Target: bmc.BootHTTP, Mode: mode, HTTPBootURI: r.Boot.URL + pxe.UnifiedPath(mac)},
			{Target: bmc.BootHTTP, Mode: mode},
		}, nil
	case infrav1.BootMethodVirtualMedia:
		if err := insertMedia(ctx, conn, r.Boot.URL+pxe.MediaPath(r.Boot.MediaToken(host))); err != nil {
			return nil, err
		}
		return []bmc.BootOverride{{Target: bmc.BootCD, Mode: mode}}, nil
	default:
		return []bmc.BootOverride{{Target: bmc.BootPXE, Mode: mode}}, nil
	}
}

// insertMedia inserts an image into the virtual drive. If the answer is lost, it checks
// whether the image is inserted (I17).
func insertMedia(ctx context.Context, conn bmc.Conn, image string) error {
	_, err := conn.InsertMedia(ctx, bmc.MediaCD, image)
	if !errors.Is(err, bmc.ErrUnknownOutcome) {
		return err
	}
	slots, readErr := conn.MediaSlots(ctx)
	if readErr != nil {
		return readErr
	}
	for _, slot := range slots {
		if slot.Inserted && slot.Image == image {
			return nil
		}
	}
	return fmt.Errorf("%w: the virtual drive does not report the image: %v", bmc.ErrNotApplied, err) //nolint:errorlint // the outcome is known now
}

// setBootOverride sets the first override that the BMC accepts. A PXE boot continues without
// an override: by its own boot order the server reaches Ingot's boot server (field notes).
// Any other boot fails and the host stays off: it could start another system.
func (r *Reconciler) setBootOverride(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost, overrides []bmc.BootOverride) error {
	var err error
	for _, override := range overrides {
		err = conn.SetBootOverride(ctx, override)
		if errors.Is(err, bmc.ErrUnknownOutcome) {
			err = readBackOverride(ctx, conn, override, err)
		}
		if errors.Is(err, bmc.ErrOverrideStays) {
			r.recordWarning(host, infrav1.ReasonBootOverrideNotApplied, "The BMC keeps the boot override for every boot instead of one. Ingot boots the agent. "+
				"Later boots reach the disk: Ingot ejects its CD, or its boot server starts the disk.")
			return nil
		}
		if !errors.Is(err, bmc.ErrNotSupported) && !errors.Is(err, bmc.ErrNotApplied) {
			return err
		}
	}
	if method := lifecycle.BootMethodOf(host); method != infrav1.BootMethodPXE {
		return fmt.Errorf("set %s boot override: %w; the host stays off, since its own boot order may start another system", method, err)
	}
	r.recordWarning(host, infrav1.ReasonBootOverrideNotApplied, fmt.Sprintf(
		"The BMC did not accept the PXE boot override. Ingot powers the host on anyway: the network must be first in its boot order. Cause: %v", err))
	return nil
}

// readBackOverride checks an override whose answer was lost (I17): otherwise a BMC that loses
// every answer would never power the host on.
func readBackOverride(ctx context.Context, conn bmc.Conn, want bmc.BootOverride, lost error) error {
	now, err := conn.BootOverride(ctx)
	switch {
	case err != nil:
		return err
	case now.Target != want.Target:
		return fmt.Errorf("%w: the BMC reports %q: %v", bmc.ErrNotApplied, now.Target, lost) //nolint:errorlint // the outcome is known now
	}
	return nil
}

const maxEjections = 4

// ejectMedia ejects Ingot's image from the virtual drive and removes it from the record. After
// maxEjections failed tries, or if the BMC does not support it, an event reports the failure
// and Ingot continues: the image's URL expires with its order, and fencing must not wait.
func (r *Reconciler) ejectMedia(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.timing().Conflict, err
	}
	r.logStep(ctx, host, *decision)
	err := r.do(ctx, seen.target, emptyDrives)
	known := r.memory.bmcOf(host)
	known.ejections++
	last := err == nil || known.ejections >= maxEjections || errors.Is(err, bmc.ErrNotSupported)
	if last {
		known.ejections = 0
	}
	r.memory.keepBMC(host, known)
	seen.known.ejections = known.ejections
	switch {
	case err != nil && last:
		r.recordWarning(host, infrav1.ReasonVirtualMediaEjectFailed, "Ingot's CD image may still be in the BMC's virtual drive. Eject it by hand: it no longer boots, "+
			"but may keep the server from its disk. Cause: "+err.Error())
	case errors.Is(err, bmc.ErrUnknownOutcome), errors.Is(err, bmc.ErrNotApplied):
		return r.timing().PowerSettle, nil // the next try reads the drives again (I17)
	case err != nil: // does not count as a power action
		return r.bmcFailed(host, seen, decision, r.failed(host, seen.known, err, r.Clock.Now())), nil
	}
	return r.timing().Conflict, r.saveLedger(ctx, host, lifecycle.SaveLedger{Ledger: lifecycle.WithoutMedia(host)}, false)
}

// emptyDrives ejects Ingot's images and keeps images that an operator inserted. It fails with
// bmc.ErrNotSupported if no drive reports an image of Ingot's, but one has an image of unknown
// origin, which may be Ingot's.
func emptyDrives(ctx context.Context, conn bmc.Conn) error {
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
		case err == nil && pxe.IsMediaPath(image.Path):
			errs = append(errs, conn.EjectMedia(ctx, slot.ID))
		case slices.Contains(slot.Kinds, bmc.MediaCD) && (err != nil || image.Host == ""):
			unclear = slot.ID
		}
	}
	if len(errs) == 0 && unclear != "" {
		return fmt.Errorf("%w: virtual drive %s is not empty and does not report its image", bmc.ErrNotSupported, unclear)
	}
	return errors.Join(errs...)
}
