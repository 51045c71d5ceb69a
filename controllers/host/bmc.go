// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// turn bounds everything that one reconcile asks of a BMC, its place in the queue
// included: a BMC that hangs must not keep a worker (I13).
const turn = time.Minute

// observeBMC asks the BMC for power state and health and, at first contact, for the
// NICs that it knows. It writes nothing (I8). After a failure it leaves the BMC alone
// until the backoff is over, or spec.bmc, credentials or CA change.
func (r *Reconciler) observeBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.BMC == nil {
		return r.finder().Withdraw(ctx, host)
	}
	found, err := r.finder().Find(ctx, host, seen.hardware)
	if err != nil {
		return err
	}
	if seen.hardware, err = r.finder().Unpin(ctx, host, seen.hardware); err != nil {
		return err
	}
	seen.target = found.Target
	seen.target.Connecting = r.connecting(context.WithoutCancel(ctx), host)
	before := r.contacts.of(host)
	known := before.under(keyFor(host, found.Version))
	if before.key != "" && before.key != known.key && found.Problem == lifecycle.BMCOK {
		r.forgive(seen.target)
	}
	pushed, pushing := r.works.PushingTo(seen.target)
	same := found.Problem == lifecycle.BMCOK || (found.Problem == known.problem && found.Message == known.message)
	switch {
	case same && seen.Now.Before(known.retryAt):
	case found.Problem != lifecycle.BMCOK:
		known = known.failed(found.Problem, found.Message, seen.Now, r.waits())
	case pushing: // one call in flight is enough
	default:
		known, err = r.contactBMC(ctx, host, seen, found, known)
		if ctx.Err() != nil { // the manager stops: that is no news of the BMC
			return ctx.Err()
		}
	}
	known.off, seen.OffUnsure = known.off.seen(host.Spec.Order, seen.Power, seen.Now, r.Policy.ResetInterval)
	known.offProof = known.offProof.Seen(host, seen.Power)
	seen.OffProven, seen.SeenOn = known.offProof.Holds(host), known.offProof.SeenOn(host)
	seen.AskRefused = known.asking.lasted(r.Policy.SoftPowerOff)
	r.contacts.keep(host, known)
	seen.contact(host, known)
	if pushing && seen.BMC == lifecycle.BMCOK {
		r.showPush(host, seen, pushed)
	}
	return err
}

// forgive has the pool try a BMC at once, and a password that it refused once more: what
// was wrong may have been put right at the BMC, where nobody else sees it.
func (r *Reconciler) forgive(target bmc.Target) {
	if pool, can := r.BMC.(interface{ Forgive(bmc.Target) }); can {
		pool.Forgive(target)
	}
}

// contactBMC trusts the BMC first, if this is its first use; then finds out which
// password it has, if that is being changed; reads it; and changes its password, if
// somebody asks for that. An error is not the BMC's.
func (r *Reconciler) contactBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation, found bmccredentials.Access, known contact) (contact, error) {
	if found.Unpinned {
		refused, err := r.pin(ctx, host, seen)
		if err != nil {
			return known, err
		}
		if refused != nil {
			seen.Now = r.Clock.Now()
			return r.failed(host, known, refused, seen.Now), nil
		}
	}
	begun := rotation.IsPending(host, found.Secret)
	if begun {
		after, settled, err := r.rotate(ctx, host, seen, found.Secret, known)
		if err != nil || !settled {
			return after, err
		}
		known = after
	}
	known = r.readBMC(ctx, host, seen, known)
	switch {
	case begun, known.problem != lifecycle.BMCOK && !changesPassword(host, seen, known):
		return known, nil
	case !rotation.IsAsked(host, &seen.Observation, begun):
		seen.rotated = rotation.Last(host, found.Secret)
		return known, nil
	}
	seen.contact(host, known)
	known, _, err := r.rotate(ctx, host, seen, found.Secret, known)
	return known, err
}

// changesPassword reports whether the BMC demands a new password before it answers anything,
// and an operator has asked Ingot to set one (docs/decisions/0315).
func changesPassword(host *infrav1.IngotHost, seen *observation, known contact) bool {
	return known.problem == lifecycle.BMCPasswordChange && rotation.IsAsked(host, &seen.Observation, false)
}

func (r *Reconciler) finder() *bmccredentials.Finder {
	return &bmccredentials.Finder{Client: r.Client, Live: r.Live, Fingerprint: r.Fingerprint, Note: r.note, Turn: r.waits().Turn}
}

// pin trusts the certificate that the BMC presents, at its first use. From two errors the
// first is the BMC's.
func (r *Reconciler) pin(ctx context.Context, host *infrav1.IngotHost, seen *observation) (refused, _ error) {
	if err := r.mustNotBePaused(ctx, host); err != nil {
		return nil, err
	}
	facts, refused, err := r.finder().Pin(ctx, host, seen.hardware)
	if refused == nil && err == nil {
		seen.hardware, seen.target.Fingerprint = facts, facts.Spec.BMC.CertificateFingerprint
	}
	return refused, err
}

// readBMC makes the calls and returns what is known after them.
func (r *Reconciler) readBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation, known contact) contact {
	firstContact := known.address != seen.target.Address || !known.listed
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error {
		vitals, err := conn.Vitals(ctx)
		if err != nil {
			return err
		}
		seen.Power = infrav1.PowerState(vitals.Power)
		known.health = r.readHealth(ctx, conn, known.healthOf(host), lifecycle.Health(vitals.Health))
		if !firstContact {
			if known, err = known.lookedAt(ctx, conn); err != nil {
				return err
			}
		}
		if known.listed && !firstContact {
			known = known.soughtAgain(ctx, conn, host.Spec.BootMACAddress, seen.Now)
			return nil
		}
		facts, err := conn.Inventory(ctx)
		if errors.Is(err, bmc.ErrNotSupported) {
			facts, err = bmc.Inventory{}, nil
		}
		known.address, known.listed, known.macs = seen.target.Address, err == nil, facts.MACs
		known.sought, known.soughtAt = host.Spec.BootMACAddress, seen.Now
		known.identity, known.session, known.unsure = identityOf(facts.Identity), sessionOf(conn), err != nil
		return err
	})
	seen.Now = r.Clock.Now()
	if err != nil {
		return r.failed(host, known, err, seen.Now)
	}
	lags := seen.Now.Before(seen.LastReset.Add(r.Policy.ResetInterval)) // nothing is ordered meanwhile
	orders, err := known.orders.seen(seen.Power, known.offProof.Missing(host), lags)
	known.orders = orders
	if err != nil {
		known = r.failed(host, known, err, seen.Now)
		known.orders = known.orders.failedAs(known)
		return known
	}
	return known.answered()
}

// failed notes the failure of calls to a BMC. That the pool let the BMC rest and sent
// nothing is no failure more; the cause is that of the last call.
func (r *Reconciler) failed(host *infrav1.IngotHost, known contact, err error, now time.Time) contact {
	if errors.Is(err, bmc.ErrUnreachable) || errors.Is(err, bmc.ErrTimeout) || errors.Is(err, bmc.ErrCertificate) {
		known.unsure = true // who answers there next may be another server's BMC
	}
	if errors.Is(err, bmc.ErrUnfinished) { // it answers, and the next try gets further
		known.delay, known.failures = 0, 0
	}
	wait := min(bmc.RetryAfter(err), r.waits().BackoffCap)
	var rests *bmc.RestError
	if errors.As(err, &rests) {
		if known.problem == lifecycle.BMCOK { // others found out first
			known = known.failed(problemOf(err), rests.Err.Error(), now, r.waits())
			known.failures = rests.Failures
		}
	} else {
		known = known.failed(problemOf(err), err.Error(), now, r.waits())
	}
	if known.since.IsZero() {
		known.since = now
		if told := lifecycle.FailingSince(host); !told.IsZero() {
			known.since = told
		}
	}
	if due := now.Add(wait); known.retryAt.Before(due) {
		known.retryAt = due
	}
	return known
}

// do makes calls to a BMC within the turn.
func (r *Reconciler) do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.waits().Turn)
	defer cancel()
	return r.BMC.Do(ctx, target, guards(ctx, target, false, calls))
}

// contact takes over what is known of the BMC.
func (o *observation) contact(host *infrav1.IngotHost, known contact) {
	o.known = known
	o.BMC, o.BMCMessage, o.RetryAt = known.problem, known.message, known.retryAt
	o.Failures, o.FailingSince = known.failures, known.since
	o.BootTakenAt = known.booting.of(host.Spec.Order)
	o.Health, o.HealthDetail = known.health.state, known.health.detail
	if known.problem != lifecycle.BMCOK {
		o.Power = infrav1.PowerStateUnknown
		return
	}
	o.KnownMACs = known.macs
	o.BootMACMissing = known.misses(host.Spec.BootMACAddress)
	if o.hardware != nil {
		system := o.hardware.Spec.System
		inspected := inventory.SystemIdentity{UUID: system.UUID, SerialNumber: system.SerialNumber}
		o.WrongServer = inventory.WrongServer(host, inspected, known.identity, o.BootMACMissing)
	}
}

// problemOf classes an error of the BMC, so that each gets its own condition and remedy.
func problemOf(err error) lifecycle.BMCProblem {
	var unheeded disobeyed
	if errors.As(err, &unheeded) {
		return lifecycle.BMCDisobeys
	}
	var certificate *bmc.CertificateError
	if errors.As(err, &certificate) && certificate.Problem == bmc.CertificateNotPinned {
		return lifecycle.BMCCertificateChanged
	}
	for _, class := range []struct {
		is      error
		problem lifecycle.BMCProblem
	}{
		{bmc.ErrSourceNotAllowed, lifecycle.BMCAddressNotAllowed},
		{bmc.ErrUnauthorized, lifecycle.BMCUnauthorized},
		{bmc.ErrPasswordChange, lifecycle.BMCPasswordChange},
		{bmc.ErrCertificate, lifecycle.BMCCertificateInvalid},
		{bmc.ErrUnreachable, lifecycle.BMCUnreachable},
		{bmc.ErrTimeout, lifecycle.BMCTimeout},
		{bmc.ErrUnknownOutcome, lifecycle.BMCTimeout},
		{context.DeadlineExceeded, lifecycle.BMCTimeout},
		{bmc.ErrUnfinished, lifecycle.BMCSlow},
		{bmc.ErrRateLimited, lifecycle.BMCRateLimited},
		{bmc.ErrBusy, lifecycle.BMCBusy},
		{bmc.ErrNotSupported, lifecycle.BMCUnsupported},
		{bmc.ErrAddress, lifecycle.BMCUnsupported},
		{bmccredentials.ErrNamespaceTerminating, lifecycle.BMCNamespaceTerminating},
	} {
		if errors.Is(err, class.is) {
			return class.problem
		}
	}
	return lifecycle.BMCError
}
