// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// turn bounds everything that one reconcile asks of a BMC, its place in the queue
// included: a BMC that hangs must not keep a worker (I13).
const turn = time.Minute

// observeBMC asks the BMC for the power state and, at first contact, for the NICs
// that it knows. It writes nothing (I8). After a failure it leaves the BMC alone
// until the backoff is over, or spec, credentials or CA change.
func (r *Reconciler) observeBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.BMC == nil {
		return nil
	}
	access, err := r.accessOf(ctx, host)
	if err != nil {
		return err
	}
	seen.target = access.target
	known := r.contacts.of(host).under(fmt.Sprintf("%d/%s", host.Generation, access.version))
	same := access.problem == inventory.BMCOK || (access.problem == known.problem && access.message == known.message)
	switch {
	case same && seen.Now.Before(known.retryAt):
	case access.problem != inventory.BMCOK:
		known = known.failed(access.problem, access.message, seen.Now, r.waits())
	default:
		known = r.readBMC(ctx, host, seen, known)
		if ctx.Err() != nil { // the manager stops: that is no news of the BMC
			return ctx.Err()
		}
	}
	r.contacts.keep(host, known)
	seen.contact(host, known)
	return nil
}

// readBMC makes the calls and returns what is known after them.
func (r *Reconciler) readBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation, known contact) contact {
	firstContact := known.address != seen.target.Address || !known.listed
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error {
		state, err := conn.PowerState(ctx)
		if err != nil {
			return err
		}
		seen.Power = infrav1.PowerState(state)
		if !firstContact {
			return nil
		}
		facts, err := conn.Inventory(ctx)
		if errors.Is(err, bmc.ErrNotSupported) {
			facts, err = bmc.Inventory{}, nil
		}
		known.address, known.listed, known.macs = seen.target.Address, err == nil, facts.MACs
		return err
	})
	seen.Now = r.Clock.Now()
	if err != nil {
		return known.failed(problemOf(err), err.Error(), seen.Now, r.waits())
	}
	return known.answered()
}

// do makes calls to a BMC within the turn.
func (r *Reconciler) do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.waits().Turn)
	defer cancel()
	return r.BMC.Do(ctx, target, calls)
}

// contact takes over what is known of the BMC.
func (o *observation) contact(host *infrav1.IngotHost, known contact) {
	o.known = known
	o.BMC, o.BMCMessage, o.RetryAt = known.problem, known.message, known.retryAt
	if known.problem != inventory.BMCOK {
		o.Power = infrav1.PowerStateUnknown
		return
	}
	o.KnownMACs = known.macs
	o.BootMACMissing = len(known.macs) > 0 && !slices.Contains(known.macs, host.Spec.BootMACAddress)
}

// problemOf classes an error of the BMC, so that each gets its own condition and remedy.
func problemOf(err error) inventory.BMCProblem {
	for _, class := range []struct {
		is      error
		problem inventory.BMCProblem
	}{
		{bmc.ErrUnauthorized, inventory.BMCUnauthorized},
		{bmc.ErrCertificate, inventory.BMCCertificateInvalid},
		{bmc.ErrUnreachable, inventory.BMCUnreachable},
		{bmc.ErrTimeout, inventory.BMCTimeout},
		{bmc.ErrUnknownOutcome, inventory.BMCTimeout},
		{context.DeadlineExceeded, inventory.BMCTimeout},
		{bmc.ErrBusy, inventory.BMCBusy},
		{bmc.ErrNotSupported, inventory.BMCUnsupported},
		{bmc.ErrAddress, inventory.BMCUnsupported},
	} {
		if errors.Is(err, class.is) {
			return class.problem
		}
	}
	return inventory.BMCError
}
