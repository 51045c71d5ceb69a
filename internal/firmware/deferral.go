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

// deferral is an update, or an access to settings and firmware, that is tried again later, at
// growing intervals (I13). It does not count against the host, and it survives answers of the BMC
// and changes of the host.
type deferral struct {
	// key names the BMC and the desired settings: others are tried at once.
	key    string
	delay  time.Duration
	until  time.Time
	reason string
	// slow: each try makes progress.
	slow bool
	// attempts is the number of failed attempts when the update was last deferred for a failure.
	attempts int32
}

func (v View) deferralKey() string {
	return v.Target.Address + " " + lifecycle.DesiredDigest(v.Host)
}

// next returns the deferral after one more failure. It doubles the delay, within the limits of the
// backoff, and waits at least as long as the BMC asks for.
func (p *Preparer) next(last deferral, reason string, minDelay time.Duration) deferral {
	last.delay = min(max(2*last.delay, p.Timing.BMCBackoffFirst), p.Timing.BMCBackoffMax)
	last.until = p.Clock.Now().Add(min(max(wait.Jitter(last.delay, backoffJitter), minDelay), p.Timing.BMCBackoffMax))
	last.reason = reason
	return last
}

func (v View) lastUpdateDeferral() deferral {
	if last := v.Memory.update; last.key == v.deferralKey() {
		return last
	}
	return deferral{key: v.deferralKey()}
}

// deferUpdate defers the update for at least minDelay.
func (p *Preparer) deferUpdate(v View, reason string, minDelay time.Duration) {
	v.Memory.update = p.next(v.lastUpdateDeferral(), reason+
		"; Ingot retries at growing intervals of at most 5 minutes, and at once when spec.firmware changes", minDelay)
}

// deferNextAttempt defers the attempt that follows a failed one by some minutes: three attempts in
// a row would fail for the same cause, and the host would be given up.
func (p *Preparer) deferNextAttempt(v View, decision lifecycle.Decision) {
	if v.Host.Spec.Record == nil || v.Host.Spec.Record.Preparation == nil || !beginsUpdate(decision) {
		return
	}
	preparation := v.Host.Spec.Record.Preparation
	if preparation.Attempt == 0 || v.lastUpdateDeferral().attempts == preparation.Attempt {
		return
	}
	p.deferUpdate(v, preparation.Message, p.Policy.UpdateRead)
	v.Memory.update.attempts = preparation.Attempt
}

// deferAccess defers the settings and firmware of a BMC that answers, but does not let them be read
// or written. Treated as a failure of the BMC it would be forgotten with the next answer, and would
// delay work that needs no settings. It returns an error only if the BMC itself may be unreachable.
func (p *Preparer) deferAccess(v View, err error) error {
	var rests *bmc.PausedError
	if errors.As(err, &rests) { // the BMC was not called
		return err
	}
	last, slow := v.Memory.access, errors.Is(err, bmc.ErrUnfinished)
	if last.key != v.deferralKey() || slow {
		last = deferral{key: v.deferralKey()}
	}
	last.slow = slow
	v.Memory.access = p.next(last, p.Stable(err.Error()), bmc.RetryAfter(err))
	p.showAccess(v)
	for _, unreachable := range []error{bmc.ErrUnreachable, bmc.ErrTimeout, bmc.ErrCertificate, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, unreachable) {
			return err
		}
	}
	return nil
}

func (p *Preparer) clearAccess(v View) {
	v.Memory.access = deferral{}
	p.showAccess(v)
}

// showAccess adds the deferral of the present BMC and desired settings to the observation.
func (p *Preparer) showAccess(v View) {
	access := v.Memory.access
	if access.key != v.deferralKey() {
		access = deferral{}
	}
	v.Seen.FirmwareRetryAt, v.Seen.FirmwareProblem, v.Seen.FirmwareSlow = access.until, access.reason, access.slow
}

// awaitJob defers the update until the host is woken, or for one poll interval.
func (p *Preparer) awaitJob(v View, reason string) {
	last := v.lastUpdateDeferral()
	last.until, last.reason = p.Clock.Now().Add(p.Poll), reason
	v.Memory.update = last
}

// Defer replaces a decision to begin an update, or to read the firmware for one, which may take a
// hundred requests, while the update is deferred.
func (p *Preparer) Defer(v View, decision lifecycle.Decision) (instead lifecycle.Decision, off bool) {
	p.deferNextAttempt(v, decision)
	last := v.Memory.update
	if !beginsUpdate(decision) || last.key != v.deferralKey() || !v.Seen.Now.Before(last.until) {
		return decision, false
	}
	decision.Step, decision.Event, decision.Reason = lifecycle.Wait{Until: last.until}, corev1.EventTypeWarning, infrav1.ReasonPreparing
	decision.Message = "the firmware update waits: " + last.reason
	return decision, true
}

func beginsUpdate(decision lifecycle.Decision) bool {
	_, starts := decision.Step.(lifecycle.StartUpdate)
	return starts || decision.Rule == lifecycle.RuleReadBeforeUpdate
}
