// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/constants"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
)

const (
	// grace is how long a call whose context has ended may take to notice it. Its
	// requests end with the context, so that only what sleeps takes longer.
	grace = 200 * time.Millisecond
	// hangUpTimeout bounds the end of a session that no caller waits for.
	hangUpTimeout = 5 * time.Second
)

var (
	// errGivenUp reports a call of the library that went on after its context.
	errGivenUp = errors.New("the library did not return in time")
	// errPanicked reports an answer that the library could not bear.
	errPanicked = errors.New("bmclib panicked")
)

// library is what every driver of bmclib can.
type library interface {
	Open(ctx context.Context) error
	Close(ctx context.Context) error
}

// link is one connection of one driver of the library to one BMC. Its calls run
// one at a time, each on a goroutine of its own: drivers sleep, forget contexts,
// and panic on answers that are cut short. A call that outlives its context is left
// to itself: it gets no more requests through, ends the session when it returns,
// and the link is dead. Not safe for concurrent use.
type link struct {
	target bmc.Target
	wire   *wire
	relay  *relay // nil: the driver takes our client
	lib    library
	dead   bool
	// work is the call in progress, or one that was given up.
	work sync.WaitGroup
}

// dialLink opens a connection, which the caller ends with close.
func dialLink(ctx context.Context, m maker, target bmc.Target) (*link, error) {
	// With it the library prints what it sends, passwords and all.
	if os.Getenv(constants.EnvEnableDebug) == "true" {
		return nil, fmt.Errorf("%w: %s is set: bmclib would print credentials", bmc.ErrNotSupported, constants.EnvEnableDebug)
	}
	ep, err := parseAddress(m.name, target.Address)
	if err != nil {
		return nil, err
	}
	// The library's default is to verify nothing.
	verified, err := trust.Config(target, ep.name)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", ep.host, err)
	}
	l := &link{target: target, wire: newWire(target, ep, verified)}
	l.wire.login = m.login
	if m.relayed {
		if l.relay, err = newRelay(l.wire); err != nil {
			return nil, err
		}
	}
	l.lib = m.library(l, ep)
	err = l.call(ctx, opening, "open session", l.lib.Open)
	if err == nil {
		return l, nil
	}
	if !l.dead {
		// Some drivers leave a session behind when they find the machine unfit.
		if last, worst := l.wire.seen(); last.connected || worst.connected {
			l.abandon(ctx)
		} else {
			l.release()
		}
	}
	return nil, err
}

// abandon ends the session on a goroutine, for a caller that has no time to wait.
// It lasts no longer than hangUpTimeout; close waits for it.
func (l *link) abandon(ctx context.Context) {
	if l.dead {
		return
	}
	l.dead = true
	l.work.Go(func() {
		l.hangUp(ctx)
		l.release()
	})
}

// call makes one call of the library.
func (l *link) call(ctx context.Context, kind callKind, what string, f func(context.Context) error) error {
	err := l.run(ctx, f)
	if err == nil {
		return nil
	}
	return l.failure(ctx, kind, what, err)
}

// run lets the library work until it is done, or the context has ended.
func (l *link) run(ctx context.Context, f func(context.Context) error) error {
	if l.dead {
		return errGivenUp
	}
	l.wire.begin(ctx)
	result, given := make(chan error), make(chan struct{})
	l.work.Go(func() {
		err := guarded(withoutDeadline(ctx), f)
		select {
		case result <- err:
		case <-given:
			l.hangUp(ctx)
			l.release()
		}
	})
	select {
	case err := <-result:
		l.wire.end()
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case err := <-result:
		l.wire.end()
		return err
	case <-patience.C:
	}
	l.dead = true
	l.wire.end()
	close(given)
	return fmt.Errorf("%w: %w", errGivenUp, ctx.Err())
}

// guarded makes an error of a panic.
func guarded(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	return f(ctx)
}

// close ends the session, also when ctx has ended. A call that was given up ends it
// by itself when it returns; close waits for that no longer than for anything else.
func (l *link) close(ctx context.Context) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), hangUpTimeout)
		defer cancel()
	}
	if l.dead {
		return l.await(ctx)
	}
	err := l.call(ctx, closing, "end session", l.lib.Close)
	if l.dead { // the goroutine releases
		return err
	}
	l.release()
	if errors.Is(err, bmc.ErrUnauthorized) || errors.Is(err, bmc.ErrNotSupported) {
		return nil // the BMC has forgotten it already
	}
	return err
}

func (l *link) await(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the call that was given up, whose sleeps are bounded
		l.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return l.failure(ctx, closing, "end session", errGivenUp)
	}
}

// hangUp ends the session for those who expect nothing of it any more.
func (l *link) hangUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangUpTimeout)
	defer cancel()
	l.wire.begin(ctx)
	_ = guarded(ctx, l.lib.Close) // it runs into the BMC's own timeout
	l.wire.end()
}

// release frees what the link holds in this process.
func (l *link) release() {
	if l.relay != nil {
		l.relay.close()
	}
	l.wire.close()
}
