// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// ErrLeaseEnded reports use of a Conn after the function that Pool.Do lent it to
// has returned.
var ErrLeaseEnded = errors.New("BMC connection used after its function returned")

// lease is the Conn that Do lends to a function: every call gets its deadline,
// is observed, and survives one forgotten session.
type lease struct {
	pool  *Pool
	entry *entry
	// stale says that the session was opened by an earlier Do.
	stale bool
	ended bool
	// answered is called with the first success.
	answered func()
	// drop says that the session is of no use any more.
	drop bool
	// guard is called before anything by another session than the guarded one; nil: none.
	guard   func(context.Context) error
	guarded uint64
}

// Sessioned is a Conn that tells its sessions apart, as those of a Pool do: another
// session may be with another server's BMC, which has taken the place of the first.
type Sessioned interface {
	// Session is the number of the session of the last call, never 0.
	Session() uint64
	// Guard has check called before the next call by any session but the one given. Its
	// error ends that call, which has sent nothing. The check may make calls itself.
	Guard(session uint64, check func(context.Context) error)
}

// Session implements Sessioned.
func (l *lease) Session() uint64 { return l.entry.session }

// Guard implements Sessioned.
func (l *lease) Guard(session uint64, check func(context.Context) error) {
	l.guarded, l.guard = session, check
}

// pass has the guard look at the session.
func (l *lease) pass(ctx context.Context) error {
	if l.guard == nil || l.entry.session == l.guarded {
		return nil
	}
	before := l.guarded
	l.guarded = l.entry.session // the check's own calls pass
	err := l.guard(ctx)
	if err != nil {
		l.guarded = before
	}
	return err
}

// end takes the Conn back.
func (l *lease) end() {
	l.ended = true
	if l.drop {
		_ = l.pool.closeSession(l.entry) // told to the observer
	}
}

// call runs one call; a forgotten session is replaced once.
func (l *lease) call(ctx context.Context, name CallName, f func(context.Context, Conn) error) error {
	return l.callWithin(ctx, name, l.pool.opts.CallTimeout, f, func() bool { return true })
}

// callWithin is call with a deadline of its own; a call that must not be repeated
// any more says so.
func (l *lease) callWithin(ctx context.Context, name CallName, timeout time.Duration, f func(context.Context, Conn) error, repeatable func() bool) error {
	if l.ended {
		return ErrLeaseEnded
	}
	err := l.once(ctx, name, timeout, f)
	if !errors.Is(err, ErrUnauthorized) {
		return err
	}
	if !l.stale || !repeatable() {
		l.drop = true
		return err
	}
	// The BMC refused before it acted (401, 403), so that the call may be
	// repeated; a refusal of the new session is final.
	l.stale = false
	_ = l.pool.closeSession(l.entry) // the BMC knows this session no more
	if err := l.pool.open(ctx, l.entry); err != nil {
		return err
	}
	return l.callWithin(ctx, name, timeout, f, repeatable)
}

func (l *lease) once(ctx context.Context, name CallName, timeout time.Duration, f func(context.Context, Conn) error) error {
	if l.entry.conn == nil {
		if err := l.pool.open(ctx, l.entry); err != nil {
			return err
		}
	}
	if err := l.pass(ctx); err != nil {
		return err
	}
	err := l.pool.observe(ctx, l.entry, name, timeout, func(ctx context.Context) error {
		return f(ctx, l.entry.conn)
	})
	if err == nil {
		l.answered()
	}
	return err
}

// ask runs one call that answers with a value.
func ask[T any](ctx context.Context, l *lease, name CallName, f func(Conn, context.Context) (T, error)) (answer T, err error) {
	err = l.call(ctx, name, func(ctx context.Context, c Conn) (err error) {
		answer, err = f(c, ctx)
		return err
	})
	return answer, err
}

// PowerState implements Power.
func (l *lease) PowerState(ctx context.Context) (PowerState, error) {
	return ask(ctx, l, CallPowerState, Conn.PowerState)
}

// Vitals implements Pulse. A driver without it is asked for the power state.
func (l *lease) Vitals(ctx context.Context) (Vitals, error) {
	return ask(ctx, l, CallVitals, func(c Conn, ctx context.Context) (Vitals, error) {
		vitals, err := c.Vitals(ctx)
		if !errors.Is(err, ErrNotSupported) {
			return vitals, err
		}
		power, err := c.PowerState(ctx)
		return Vitals{Power: power, Health: HealthUnknown}, err
	})
}

// SetPower implements Power.
func (l *lease) SetPower(ctx context.Context, action PowerAction) error {
	return l.call(ctx, CallSetPower, func(ctx context.Context, c Conn) error { return c.SetPower(ctx, action) })
}

// BootOverride implements BootDevice.
func (l *lease) BootOverride(ctx context.Context) (BootOverride, error) {
	return ask(ctx, l, CallBootOverride, Conn.BootOverride)
}

// SetBootOverride implements BootDevice.
func (l *lease) SetBootOverride(ctx context.Context, override BootOverride) error {
	return l.call(ctx, CallSetBootOverride, func(ctx context.Context, c Conn) error {
		return c.SetBootOverride(ctx, override)
	})
}

// Identity implements Inventorier.
func (l *lease) Identity(ctx context.Context) (Identity, error) {
	return ask(ctx, l, CallIdentity, Conn.Identity)
}

// Inventory implements Inventorier.
func (l *lease) Inventory(ctx context.Context) (Inventory, error) {
	return ask(ctx, l, CallInventory, Conn.Inventory)
}

// Close ends the session now; the next call opens another, whose refusal is final:
// a wrong password is sent once.
func (l *lease) Close(context.Context) error {
	if l.ended {
		return ErrLeaseEnded
	}
	l.stale = false
	return l.pool.closeSession(l.entry)
}

// UpdateFirmware implements Firmware. An image has a deadline of its own, and once
// something of it was read the call is not repeated: the rest would be no image.
func (l *lease) UpdateFirmware(ctx context.Context, update Update) (task Task, err error) {
	timeout, touched := l.pool.opts.CallTimeout, &touchedReader{}
	if update.Image != nil {
		timeout, touched.r = l.pool.opts.TransferTimeout, update.Image
		update.Image = touched
	}
	err = l.callWithin(ctx, CallUpdateFirmware, timeout, func(ctx context.Context, c Conn) (err error) {
		task, err = c.UpdateFirmware(ctx, update)
		return err
	}, func() bool { return !touched.touched.Load() })
	return task, err
}

// touchedReader remembers whether it was read.
type touchedReader struct {
	r       io.Reader
	touched atomic.Bool
}

// Read implements io.Reader.
func (t *touchedReader) Read(p []byte) (int, error) {
	t.touched.Store(true)
	return t.r.Read(p)
}
