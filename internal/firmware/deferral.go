// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// putOff is an update that the BMC takes at another time, or whose image cannot be read
// for now. Nothing is counted against the host: it is tried again at growing intervals
// (I13), though the BMC is well otherwise, and though the ledger has changed meanwhile.
type putOff struct {
	// of names the BMC and the wishes: others are tried at once.
	of    string
	delay time.Duration
	until time.Time
	why   string
	// slow: it gets on with each try.
	slow bool
	// failed is how many attempts had failed when it was put off for the last of them.
	failed int32
}

func (v View) putOffOf() string {
	return v.Target.Address + " " + lifecycle.WishesOf(v.Host)
}

// putOffUpdate doubles the interval; least is what the BMC asks for.
func (p *Preparer) putOffUpdate(v View, why string, least time.Duration) {
	of, last := v.putOffOf(), v.Memory.putOff
	if last.of != of {
		last = putOff{of: of}
	}
	last.delay, last.why = min(max(2*last.delay, p.Timing.BMCBackoffFirst), p.Timing.BMCBackoffMax), why+
		"; Ingot tries again at growing intervals of at most 5 minutes, and at once when spec.firmware changes"
	last.until = p.Clock.Now().Add(min(max(wait.Jitter(last.delay, backoffJitter), least), p.Timing.BMCBackoffMax))
	v.Memory.putOff = last
}

// space puts the attempt that follows a failed one off for some minutes: what is
// tried again at once, three times in a row, fails three times, and a host that is given
// up waits for a person.
func (p *Preparer) space(v View, decision lifecycle.Decision) {
	if v.Host.Spec.Record == nil || v.Host.Spec.Record.Preparation == nil || !beginsUpdate(decision) {
		return
	}
	preparation, last := v.Host.Spec.Record.Preparation, v.Memory.putOff
	if preparation.Attempts == 0 || last.of == v.putOffOf() && last.failed == preparation.Attempts {
		return
	}
	p.putOffUpdate(v, preparation.Message, p.Policy.UpdateRead)
	v.Memory.putOff.failed = preparation.Attempts
}

// failed puts off the settings and firmware of a BMC that lets them not be read or written
// while it answers otherwise, at growing intervals (I13): as the BMC's own failure it would
// be forgotten with the next answer, and keep from the host the work that never waits for
// settings. The error is returned that says that the BMC itself may be away.
func (p *Preparer) failed(v View, err error) error {
	var rests *bmc.RestError
	if errors.As(err, &rests) { // nothing was asked
		return err
	}
	of, last := v.putOffOf(), v.Memory.rest
	slow := errors.Is(err, bmc.ErrUnfinished)
	if last.of != of || slow {
		last = putOff{of: of}
	}
	last.slow = slow
	last.delay, last.why = min(max(2*last.delay, p.Timing.BMCBackoffFirst), p.Timing.BMCBackoffMax), p.Stable(err.Error())
	last.until = p.Clock.Now().Add(min(max(wait.Jitter(last.delay, backoffJitter), bmc.RetryAfter(err)), p.Timing.BMCBackoffMax))
	v.Memory.rest = last
	p.showRest(v)
	for _, away := range []error{bmc.ErrUnreachable, bmc.ErrTimeout, bmc.ErrCertificate, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, away) {
			return err
		}
	}
	return nil
}

func (p *Preparer) succeeded(v View) {
	v.Memory.rest = putOff{}
	p.showRest(v)
}

// showRest tells what is put off for the present BMC and wishes.
func (p *Preparer) showRest(v View) {
	v.Seen.FirmwareRetryAt, v.Seen.FirmwareProblem, v.Seen.FirmwareSlow = time.Time{}, "", false
	if rest := v.Memory.rest; rest.of == v.putOffOf() {
		v.Seen.FirmwareRetryAt, v.Seen.FirmwareProblem, v.Seen.FirmwareSlow = rest.until, rest.why, rest.slow
	}
}

// await puts the update off until the host is woken, or a poll later.
func (p *Preparer) await(v View, why string) {
	last := v.Memory.putOff
	if of := v.putOffOf(); last.of != of {
		last = putOff{of: of}
	}
	last.until, last.why = p.Clock.Now().Add(p.Poll), why
	v.Memory.putOff = last
}

// PutOff is the decision in place of one to begin an update, or to read the firmware for
// it, which may be a hundred requests, where the update is not to be begun yet.
func (p *Preparer) PutOff(v View, decision lifecycle.Decision) (instead lifecycle.Decision, off bool) {
	p.space(v, decision)
	last := v.Memory.putOff
	if !beginsUpdate(decision) || last.of != v.putOffOf() || !v.Seen.Now.Before(last.until) {
		return decision, false
	}
	decision.Step, decision.Event, decision.Reason = lifecycle.Wait{Until: last.until}, corev1.EventTypeWarning, infrav1.ReasonPreparing
	decision.Message = "an update of firmware is put off: " + last.why
	return decision, true
}

func beginsUpdate(decision lifecycle.Decision) bool {
	_, starts := decision.Step.(lifecycle.StartUpdate)
	return starts || decision.Rule == lifecycle.RuleLookBeforeUpdate
}
