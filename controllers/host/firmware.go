// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file lets package firmware take its part in a reconcile.

// turns makes calls within the time that one reconcile has for its BMC.
type turns struct{ *Reconciler }

// Do implements firmware.BMC.
func (t turns) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return t.do(ctx, target, calls)
}

// DoWithin implements firmware.BMC. It is called beside the worker.
func (t turns) DoWithin(ctx context.Context, target bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.BMC.Do(ctx, target, guards(ctx, target, true, calls))
}

func (r *Reconciler) preparer() *firmware.Preparer {
	w := r.waits()
	return &firmware.Preparer{
		Live: r.Live, BMC: turns{r}, Clock: r.Clock, Policy: r.Policy, Poll: r.Poll, HTTP: r.Images, Works: &r.works,
		Waits: firmware.Waits{BackoffFirst: w.BackoffFirst, BackoffCap: w.BackoffCap, BackoffJitter: backoffJitter, ImageTime: w.ImageTime, ImageAge: w.ImageAge, PushTime: w.PushTime},
		Save:  r.patchLocked, Wake: r.goOn, Warn: r.event, Stable: stable,
	}
}

// goOn ends what a host's firmware waits for, and has the host reconciled.
func (r *Reconciler) goOn(host types.NamespacedName) {
	r.contacts.change(host, func(known *contact) { known.firmware.GoOn() })
	r.Heard(host.String(), bmc.NewsHappened)
}

// viewOf is the host as package firmware sees it. What it remembers is kept by
// keepFirmware.
func viewOf(host *infrav1.IngotHost, seen *observation) firmware.View {
	return firmware.View{Host: host, Target: seen.target, Seen: &seen.Observation, Memory: &seen.known.firmware}
}

func (r *Reconciler) keepFirmware(host *infrav1.IngotHost, seen *observation) {
	if host.Spec.BMC == nil {
		return
	}
	r.contacts.keep(host, seen.known)
}

// observePush tells whether the host's BMC is being sent an image. It comes before the BMC
// is asked, and also where it is not.
func (r *Reconciler) observePush(_ context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.BMC == nil {
		return nil
	}
	seen.known = r.contacts.of(host)
	seen.target.Address = host.Spec.BMC.Address
	err := r.preparer().ObservePush(viewOf(host, seen))
	r.keepFirmware(host, seen)
	return err
}

// showPush shows a BMC that was left alone because an image is being pushed to it: a call
// would wait for the end of that, and a worker with it. What it told last stands; another
// system of the same BMC is shown busy.
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

// decide asks lifecycle.Next, and once more when it wants to know what settings and
// firmware the host has.
func (r *Reconciler) decide(ctx context.Context, host *infrav1.IngotHost, seen *observation) lifecycle.Decision {
	defer r.keepFirmware(host, seen)
	decision, off := r.preparer().PutOff(viewOf(host, seen), lifecycle.Next(host, seen.Observation, r.Policy))
	if _, ok := decision.Step.(lifecycle.LookInside); !ok || off {
		return decision
	}
	r.look(ctx, host, seen)
	decision, _ = r.preparer().PutOff(viewOf(host, seen), lifecycle.Next(host, seen.Observation, r.Policy))
	return decision
}

// look reads settings and firmware. A BMC that is away is the BMC's failure, with its
// backoff; one that answers and does not let them be read is not.
func (r *Reconciler) look(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	err := r.preparer().Look(ctx, viewOf(host, seen))
	if err != nil {
		seen.contact(host, r.failed(host, seen.known, err, seen.Now))
	}
	r.keepFirmware(host, seen)
}

// executeFirmware takes a step of the preparation. Like a switch, none is taken on an
// old view.
func (r *Reconciler) executeFirmware(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.waits().Soon, err
	}
	ctrl.LoggerFrom(ctx).Info("Preparing the host", "step", fmt.Sprintf("%T", decision.Step), "rule", decision.Rule)
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
	return r.waits().Soon, err
}

// afterFirmware is the decision as people are told of it, where the step came to nothing
// and is put off: told and taken back at every try, it would be two writes each.
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
