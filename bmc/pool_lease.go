// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseEnded reports a call of a Conn after the function of Pool.Do has returned.
var ErrLeaseEnded = errors.New("BMC connection used after its function returned")

// lease is the Conn that Do passes to its function. Each call gets its deadline, is
// observed, and survives one forgotten session.
type lease struct {
	pool  *Pool
	entry *entry
	// stale means that an earlier Do opened the session.
	stale bool
	ended bool
	// answered is called after each success.
	answered func()
	// drop means that the session must not be used again.
	drop bool
	// guard is called before any call on a session other than guarded; nil: none.
	guard   func(context.Context) error
	guarded uint64
}

// SessionGuard is a Conn that identifies its sessions, as a Pool's Conn does. A new session
// may lead to the BMC of another server at the same address.
type SessionGuard interface {
	// Session returns the number of the last call's session, never 0.
	Session() uint64
	// Guard has check called before the next call on any session but the given one. The check may
	// make calls itself. If it returns an error, the call sends nothing and returns that error.
	Guard(session uint64, check func(context.Context) error)
}

func (l *lease) Session() uint64 { return l.entry.session }

func (l *lease) Guard(session uint64, check func(context.Context) error) {
	l.guarded, l.guard = session, check
}

func (l *lease) checkSession(ctx context.Context) error {
	if l.guard == nil || l.entry.session == l.guarded {
		return nil
	}
	before := l.guarded
	l.guarded = l.entry.session // allows the calls of the check itself
	err := l.guard(ctx)
	if err != nil {
		l.guarded = before
	}
	return err
}

func (l *lease) end() {
	l.ended = true
	if l.drop {
		_ = l.pool.closeSession(l.entry) // the observer has the error
	}
}

// Close ends the session now. The next call opens another one and does not repeat a
// refused login: a wrong password is sent once.
func (l *lease) Close(context.Context) error {
	if l.ended {
		return ErrLeaseEnded
	}
	l.stale = false
	return l.pool.closeSession(l.entry)
}

// call runs one call. It replaces a forgotten session once.
func (l *lease) call(ctx context.Context, name CallName, f func(context.Context, Conn) error) error {
	return l.callWithin(ctx, name, l.pool.opts.CallTimeout, f, func() bool { return true })
}

// callWithin is call with its own timeout and a check whether the call may be repeated.
func (l *lease) callWithin(ctx context.Context, name CallName, timeout time.Duration, f func(context.Context, Conn) error, repeatable func() bool) error {
	if l.ended {
		return ErrLeaseEnded
	}
	err := l.callOnce(ctx, name, timeout, f)
	if !errors.Is(err, ErrUnauthorized) {
		return err
	}
	if !l.stale || !repeatable() {
		l.drop = true
		return err
	}
	// The BMC refused before it acted (401, 403), so the call may be repeated. A refusal of
	// the new session is final.
	l.stale = false
	_ = l.pool.closeSession(l.entry) // the BMC has forgotten this session
	if err := l.pool.open(ctx, l.entry); err != nil {
		return err
	}
	return l.callWithin(ctx, name, timeout, f, repeatable)
}

func (l *lease) callOnce(ctx context.Context, name CallName, timeout time.Duration, f func(context.Context, Conn) error) error {
	if l.entry.conn == nil {
		if err := l.pool.open(ctx, l.entry); err != nil {
			return err
		}
	}
	if err := l.checkSession(ctx); err != nil {
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

// callFor runs one call that returns a value.
func callFor[T any](ctx context.Context, l *lease, name CallName, f func(Conn, context.Context) (T, error)) (answer T, err error) {
	err = l.call(ctx, name, func(ctx context.Context, c Conn) (err error) {
		answer, err = f(c, ctx)
		return err
	})
	return answer, err
}
