// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

type firmwareBMC struct{ *Reconciler }

// Do makes calls within the BMC time limit of one reconcile.
func (b firmwareBMC) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return b.do(ctx, target, calls)
}

// DoWithin makes calls within limit, in parallel to the reconcile.
func (b firmwareBMC) DoWithin(ctx context.Context, target bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return b.BMC.Do(ctx, target, guarded(ctx, target, true, calls))
}

func (r *Reconciler) preparer() *firmware.Preparer {
	return &firmware.Preparer{
		Live: r.Live, BMC: firmwareBMC{r}, Clock: r.Clock, Policy: r.Policy, Poll: r.Poll, HTTP: r.Images, Jobs: &r.memory.jobs,
		Timing: r.timing(),
		Save:   r.patchLocked, Wake: r.wakeFirmware, Warn: r.recordWarning, Stable: stable,
	}
}

func (r *Reconciler) wakeFirmware(host types.NamespacedName) {
	r.memory.changeBMC(host, func(known *bmcState) { known.firmware.EndWait() })
	r.HandleBMCEvent(host.String(), bmc.WatchChanged)
}

// viewOf returns the host for package firmware. keepFirmware stores the package's memory
// afterwards.
func viewOf(host *infrav1.IngotHost, seen *observation) firmware.View {
	return firmware.View{Host: host, Target: seen.target, Seen: &seen.Observation, Memory: &seen.known.firmware}
}

func (r *Reconciler) keepFirmware(host *infrav1.IngotHost, seen *observation) {
	if host.Spec.BMC != nil {
		r.memory.keepBMC(host, seen.known)
	}
}

// observePush notes whether a firmware image is being uploaded to the host's BMC. It runs
// before the BMC is read, and also if the BMC is not read.
func (r *Reconciler) observePush(_ context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.BMC == nil {
		return nil
	}
	seen.known = r.memory.bmcOf(host)
	seen.target.Address = host.Spec.BMC.Address
	err := r.preparer().ObservePush(viewOf(host, seen))
	r.keepFirmware(host, seen)
	return err
}

// showPush shows a BMC that receives a firmware image. Ingot sends it no other calls: a call
// would block a worker until the upload ends. The host of the upload keeps its power state.
// Other systems of the same BMC are shown as busy.
func (r *Reconciler) showPush(host *infrav1.IngotHost, seen *observation, pushed types.NamespacedName) {
	if pushed == keyOf(host) {
		seen.Power = host.Status.Power
		return
	}
	seen.BMC, seen.Power, seen.RetryAt = lifecycle.BMCBusy, infrav1.PowerStateUnknown, seen.Now.Add(r.Poll)
	seen.BMCMessage = "Ingot uploads firmware to this BMC for IngotHost " + pushed.String() + " and sends no other requests until the upload ends"
}

func (r *Reconciler) observeFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if seen.BMC == lifecycle.BMCOK && host.Spec.BMC != nil {
		r.preparer().Observe(ctx, viewOf(host, seen))
	}
	return nil
}

// readFirmware reads settings and firmware. A BMC that does not answer is a failure with
// backoff. A BMC that answers but does not expose them is not.
func (r *Reconciler) readFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	err := r.preparer().Look(ctx, viewOf(host, seen))
	if err != nil {
		seen.setBMC(host, r.failed(host, seen.known, err, seen.Now))
	}
	r.keepFirmware(host, seen)
}

// executeFirmware executes a step of the preparation if the host is current.
func (r *Reconciler) executeFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.timing().Conflict, err
	}
	r.logStep(ctx, host, *decision)
	view := viewOf(host, seen)
	err := r.preparer().Execute(ctx, view, decision.Step)
	if err == nil {
		*decision = r.afterFirmware(view, *decision)
	}
	r.keepFirmware(host, seen)
	var failure *firmware.BMCError
	if errors.As(err, &failure) {
		return r.bmcFailed(host, seen, decision, r.failed(host, seen.known, failure.Err, r.Clock.Now())), nil
	}
	return r.timing().Conflict, err
}

// afterFirmware returns the decision to show after a step. A step without effect that is
// deferred must not be shown and withdrawn at every try, which would cost two writes each.
func (r *Reconciler) afterFirmware(view firmware.View, decision lifecycle.Decision) lifecycle.Decision {
	decision, _ = r.preparer().Defer(view, decision)
	if !view.Seen.Now.Before(view.Seen.FirmwareRetryAt) {
		return decision
	}
	next := lifecycle.Next(view.Host, *view.Seen, r.Policy)
	switch next.Step.(type) {
	case lifecycle.Idle, lifecycle.Wait:
		return next
	}
	return decision
}

type rotationBMC struct {
	*Reconciler
	host  *infrav1.IngotHost
	seen  *observation
	known *bmcState
}

// Do makes calls to the server that this reconcile observed.
func (b rotationBMC) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return b.do(b.withIdentityGuard(ctx, b.host, b.seen), target, calls)
}

// Read reads the BMC again, and reports whether it answers.
func (b rotationBMC) Read(ctx context.Context) bool {
	*b.known = b.readBMC(ctx, b.host, b.seen, *b.known)
	b.seen.setBMC(b.host, *b.known)
	return b.known.problem == lifecycle.BMCOK || b.known.problem == lifecycle.BMCPasswordChange
}

// Failed records the failure of a call. redact makes the BMC's text fit for conditions.
func (b rotationBMC) Failed(err error, redact func(string) string) {
	b.seen.Now = b.Clock.Now()
	*b.known = b.failed(b.host, *b.known, err, b.seen.Now)
	b.known.message = stable(redact(b.known.message))
}

func (r *Reconciler) rotator(bmc rotation.BMC) *rotation.Rotator {
	return &rotation.Rotator{Client: r.Client, Clock: r.Clock, BMC: bmc, Turn: r.timing().BMCCalls,
		Current: r.mustBeCurrent, Save: r.saveCommands, Note: r.recordNormal, Warn: r.recordWarning}
}

// rotate continues a change of the BMC's password. settled reports whether the password of
// seen.target is valid and the BMC answers.
func (r *Reconciler) rotate(ctx context.Context, host *infrav1.IngotHost, seen *observation, secret *corev1.Secret, known bmcState) (_ bmcState, settled bool, _ error) {
	r.unwatch(keyOf(host)) // a broken stream would log in with the old password
	outcome, err := r.rotator(rotationBMC{r, host, seen, &known}).Rotate(ctx, rotation.View{
		Host: host, Secret: secret, Target: &seen.target, Seen: &seen.Observation, Memory: &known.rotation,
	})
	if outcome.Condition != nil {
		seen.rotated = outcome.Condition
	}
	return known, outcome.Settled, err
}
