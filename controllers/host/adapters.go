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

// This file connects the packages firmware and rotation to a reconcile.

// firmwareBMC implements firmware.BMC.
type firmwareBMC struct{ *Reconciler }

// Do makes calls within the time that one reconcile has for its BMC.
func (b firmwareBMC) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return b.do(ctx, target, calls)
}

// DoWithin makes calls next to the reconcile.
func (b firmwareBMC) DoWithin(ctx context.Context, target bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return b.BMC.Do(ctx, target, guarded(ctx, target, true, calls))
}

func (r *Reconciler) preparer() *firmware.Preparer {
	return &firmware.Preparer{
		Live: r.Live, BMC: firmwareBMC{r}, Clock: r.Clock, Policy: r.Policy, Poll: r.Poll, HTTP: r.Images, Works: &r.memory.jobs,
		Timing: r.timing(),
		Save:   r.patchLocked, Wake: r.wakeFirmware, Warn: r.recordWarning, Stable: stable,
	}
}

// wakeFirmware ends what a host's firmware waits for, and triggers a reconcile.
func (r *Reconciler) wakeFirmware(host types.NamespacedName) {
	r.memory.changeBMC(host, func(known *bmcState) { known.firmware.GoOn() })
	r.Heard(host.String(), bmc.NewsHappened)
}

// viewOf is the host as package firmware sees it. keepFirmware keeps what the package
// remembers.
func viewOf(host *infrav1.IngotHost, seen *observation) firmware.View {
	return firmware.View{Host: host, Target: seen.target, Seen: &seen.Observation, Memory: &seen.known.firmware}
}

func (r *Reconciler) keepFirmware(host *infrav1.IngotHost, seen *observation) {
	if host.Spec.BMC != nil {
		r.memory.keepBMC(host, seen.known)
	}
}

// observePush notes whether an image is being pushed to the host's BMC. It comes before the
// BMC is asked, and also if it is not asked.
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

// showPush shows a BMC that is left alone because an image is being pushed to it: a call
// would wait for the end of the push, and a worker with it. The host of the push keeps its
// power state; another system of the same BMC is shown busy.
func (r *Reconciler) showPush(host *infrav1.IngotHost, seen *observation, pushed types.NamespacedName) {
	if pushed == keyOf(host) {
		seen.Power = host.Status.Power
		return
	}
	seen.BMC, seen.Power, seen.RetryAt = lifecycle.BMCBusy, infrav1.PowerStateUnknown, seen.Now.Add(r.Poll)
	seen.BMCMessage = "Ingot pushes an image of firmware to this BMC for IngotHost " + pushed.String() + ", and asks it nothing else meanwhile"
}

// observeFirmware adds what is known of settings and firmware.
func (r *Reconciler) observeFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if seen.BMC == lifecycle.BMCOK && host.Spec.BMC != nil {
		r.preparer().Observe(ctx, viewOf(host, seen))
	}
	return nil
}

// readFirmware reads settings and firmware. A BMC that is away is a failure with backoff;
// one that answers but does not let them be read is not.
func (r *Reconciler) readFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	err := r.preparer().Look(ctx, viewOf(host, seen))
	if err != nil {
		seen.setBMC(host, r.failed(host, seen.known, err, seen.Now))
	}
	r.keepFirmware(host, seen)
}

// executeFirmware takes a step of the preparation, on a current view only.
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

// afterFirmware returns the decision to show after a step that had no effect and is put off:
// shown and taken back at every try, it would cost two writes each.
func (r *Reconciler) afterFirmware(view firmware.View, decision lifecycle.Decision) lifecycle.Decision {
	decision, _ = r.preparer().PutOff(view, decision)
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

// rotationBMC implements rotation.BMC for one reconcile.
type rotationBMC struct {
	*Reconciler
	host  *infrav1.IngotHost
	seen  *observation
	known *bmcState
}

// Do makes calls at the server that was seen.
func (b rotationBMC) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return b.do(b.withIdentityGuard(ctx, b.host, b.seen), target, calls)
}

// Read reads the BMC again, and reports whether it answers.
func (b rotationBMC) Read(ctx context.Context) bool {
	*b.known = b.readBMC(ctx, b.host, b.seen, *b.known)
	b.seen.setBMC(b.host, *b.known)
	return b.known.problem == lifecycle.BMCOK || b.known.problem == lifecycle.BMCPasswordChange
}

// Failed notes the failure of a call. tell makes the BMC's text fit for conditions.
func (b rotationBMC) Failed(err error, tell func(string) string) {
	b.seen.Now = b.Clock.Now()
	*b.known = b.failed(b.host, *b.known, err, b.seen.Now)
	b.known.message = stable(tell(b.known.message))
}

func (r *Reconciler) rotator(bmc rotation.BMC) *rotation.Rotator {
	return &rotation.Rotator{Client: r.Client, Clock: r.Clock, BMC: bmc, Turn: r.timing().BMCCalls,
		Current: r.mustBeCurrent, Save: r.saveCommands, Note: r.recordNormal, Warn: r.recordWarning}
}

// rotate continues a change of the BMC's password. settled: the password of seen.target is
// valid, and the BMC answers.
func (r *Reconciler) rotate(ctx context.Context, host *infrav1.IngotHost, seen *observation, secret *corev1.Secret, known bmcState) (_ bmcState, settled bool, _ error) {
	r.unwatch(keyOf(host)) // a stream that breaks would log in with a password that is not valid any more
	outcome, err := r.rotator(rotationBMC{r, host, seen, &known}).Rotate(ctx, rotation.View{
		Host: host, Secret: secret, Target: &seen.target, Seen: &seen.Observation, Memory: &known.rotation,
	})
	if outcome.Condition != nil {
		seen.rotated = outcome.Condition
	}
	return known, outcome.Settled, err
}
