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
	// grace is how long a call may take to return after its context has ended. Its requests
	// end with the context, so only a sleeping driver takes longer.
	grace = 200 * time.Millisecond
	// logoutTimeout bounds a logout that no caller waits for.
	logoutTimeout = 5 * time.Second
)

var (
	// errGivenUp reports a call that did not return in time.
	errGivenUp = errors.New("bmclib did not return in time")
	// errPanicked reports an answer that made bmclib panic.
	errPanicked = errors.New("bmclib panicked")
)

// library is the interface of every bmclib driver.
type library interface {
	Open(ctx context.Context) error
	Close(ctx context.Context) error
}

// link is one connection of one bmclib driver to one BMC. Each call runs on its own goroutine, since
// drivers sleep, ignore contexts and panic on truncated answers. If a call outlives its context, the
// link is dead: the call gets no more requests through and ends the session when it returns.
// A link makes one call at a time and is not safe for concurrent use.
type link struct {
	target bmc.Target
	wire   *wire
	relay  *relay // nil: the driver accepts our HTTP client
	lib    library
	dead   bool
	// work is the call in progress or an abandoned one.
	work sync.WaitGroup
}

// dialLink opens a connection. The caller ends it with close.
func dialLink(ctx context.Context, d driverSpec, target bmc.Target) (*link, error) {
	// With this variable, bmclib prints what it sends, including passwords.
	if os.Getenv(constants.EnvEnableDebug) == "true" {
		return nil, fmt.Errorf("%w: %s is set, which makes bmclib print credentials", bmc.ErrNotSupported, constants.EnvEnableDebug)
	}
	ep, err := parseAddress(d.name, target.Address)
	if err != nil {
		return nil, err
	}
	// bmclib's default is not to verify certificates.
	verified, err := trust.Config(target, ep.name)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", ep.host, err)
	}
	l := &link{target: target, wire: newWire(target, ep, verified)}
	l.wire.login = d.login
	if d.relayed {
		if l.relay, err = newRelay(l.wire); err != nil {
			return nil, err
		}
	}
	l.lib = d.library(l, ep)
	err = l.call(ctx, opening, "open session", l.lib.Open)
	if err == nil {
		return l, nil
	}
	if !l.dead {
		// Some drivers leave a session behind when they reject the machine.
		if last, worst := l.wire.seen(); last.connected || worst.connected {
			l.abandon(ctx)
		} else {
			l.release()
		}
	}
	return nil, err
}

// abandon ends the session on a goroutine, within logoutTimeout; close waits for it.
func (l *link) abandon(ctx context.Context) {
	if l.dead {
		return
	}
	l.dead = true
	l.work.Go(func() {
		l.logOut(ctx)
		l.release()
	})
}

// call runs f, one call of bmclib.
func (l *link) call(ctx context.Context, kind callKind, what string, f func(context.Context) error) error {
	err := l.run(ctx, f)
	if err == nil {
		return nil
	}
	return l.failure(ctx, kind, what, err)
}

// run runs f until it returns or the context has ended.
func (l *link) run(ctx context.Context, f func(context.Context) error) error {
	if l.dead {
		return errGivenUp
	}
	l.wire.begin(ctx)
	result, given := make(chan error), make(chan struct{})
	l.work.Go(func() {
		err := recovered(withoutDeadline(ctx), f)
		select {
		case result <- err:
		case <-given:
			l.logOut(ctx)
			l.release()
		}
	})
	select {
	case err := <-result:
		l.wire.end()
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-result:
		l.wire.end()
		return err
	case <-timer.C:
	}
	l.dead = true
	l.wire.end()
	close(given)
	return fmt.Errorf("%w: %w", errGivenUp, ctx.Err())
}

// recovered returns a panic of f as an error.
func recovered(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	return f(ctx)
}

// close ends the session, even if ctx has ended. An abandoned call ends the session itself; close
// waits for it within the same time.
func (l *link) close(ctx context.Context) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
		defer cancel()
	}
	if l.dead {
		return l.await(ctx)
	}
	err := l.call(ctx, closing, "end session", l.lib.Close)
	if l.dead { // the goroutine of the call releases the link
		return err
	}
	l.release()
	if errors.Is(err, bmc.ErrUnauthorized) || errors.Is(err, bmc.ErrNotSupported) {
		return nil // the BMC has forgotten the session already
	}
	return err
}

func (l *link) await(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the abandoned call, whose sleeps are bounded
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

// logOut ends the session and ignores errors.
func (l *link) logOut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	l.wire.begin(ctx)
	_ = recovered(ctx, l.lib.Close) // on an error, the BMC's timeout ends the session
	l.wire.end()
}

// release frees the link's resources in this process.
func (l *link) release() {
	if l.relay != nil {
		l.relay.close()
	}
	l.wire.close()
}
