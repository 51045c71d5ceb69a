// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Defaults of SlowCallOptions.
const (
	DefaultSilence = 5 * time.Second
	// DefaultSlowCalls is a quarter of the hosts that the manager reconciles at once.
	DefaultSlowCalls = 12
)

// SlowCallOptions bound how many callers wait for silent BMCs, so that a caller with few workers
// keeps some for the BMCs that answer, however many hang (I13). Zero fields mean the defaults.
type SlowCallOptions struct {
	// Silence is how long a call may wait for a response of its BMC, and a caller for its
	// turn, before the call counts as slow.
	Silence time.Duration
	// Limit is how many calls of all BMCs may be slow at once; further ones end as by their
	// deadline. BMCs whose last call failed may use half of these slots, and at most Limit of
	// them are called at a time; for the others the pause is prolonged. Use at least 2: half
	// of 1 is all of it. Negative: unlimited.
	Limit int
}

func (o SlowCallOptions) filled() SlowCallOptions {
	return SlowCallOptions{Silence: cmp.Or(o.Silence, DefaultSilence), Limit: cmp.Or(o.Limit, DefaultSlowCalls)}
}

// slowCallLimiter manages the slots for slow calls.
type slowCallLimiter struct {
	opts SlowCallOptions

	mu sync.Mutex
	// slow counts the used slots, and failing those used for BMCs whose last call failed.
	slow, failing int
	// retries counts the failing BMCs that are being called by workers, and
	// unhurriedRetries those that are called with Unhurried.
	retries, unhurriedRetries int
}

type unhurriedKey struct{}

// WithoutWorker marks the calls of a caller that occupies no worker while it waits, such as an
// event stream or a firmware push. These calls use no slots of SlowCallOptions.Slow and do
// not end early: a call has its whole deadline, and the wait for a busy BMC lasts as long
// as ctx. They call at most a quarter of SlowCallOptions.Slow failing BMCs at once.
func WithoutWorker(ctx context.Context) context.Context {
	return context.WithValue(ctx, unhurriedKey{}, true)
}

func isUnhurried(ctx context.Context) bool {
	unhurried, _ := ctx.Value(unhurriedKey{}).(bool)
	return unhurried
}

// acquire takes a slot for a slow call, beyond the limit if forced.
func (p *slowCallLimiter) acquire(failing, forced bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !forced && (p.slow >= p.opts.Limit || failing && p.failing >= max(1, p.opts.Limit/2)) {
		return false
	}
	p.slow++
	if failing {
		p.failing++
	}
	return true
}

func (p *slowCallLimiter) release(failing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow--
	if failing {
		p.failing--
	}
}

// acquireRetry takes a slot for a failing BMC, until done.
func (p *slowCallLimiter) acquireRetry(unhurried bool) (done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count, limit := &p.retries, p.opts.Limit
	if unhurried {
		count, limit = &p.unhurriedRetries, max(1, p.opts.Limit/4)
	}
	if p.opts.Limit >= 0 && *count >= limit {
		return nil, false
	}
	*count++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		*count--
	}), true
}

// acquireRetry takes a slot if the last call to the BMC failed, until done. Without a free
// slot it prolongs the BMC's pause.
func (p *Pool) acquireRetry(ctx context.Context, e *entry) (done func(), _ error) {
	if !e.state.isFailing() {
		return func() {}, nil
	}
	if done, ok := p.slowCalls.acquireRetry(isUnhurried(ctx)); ok {
		return done, nil
	}
	s := e.state
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := p.opts.Pause.Max
	return nil, &PausedError{RetryAfter: wait/2 + rand.N(wait/2+1), Failures: s.contact.Failures, Err: s.contact.Err}
}

// slowCallContext is the context of a call that ends early, as by its deadline, when its
// BMC is silent and no slot for slow calls is free. Drivers do not distinguish the two: the
// BMC did not answer.
type slowCallContext struct {
	context.Context
	limiter *slowCallLimiter
	failing bool
	done    chan struct{}
	// stop ends the watch of the outer context.
	stop func() bool

	mu    sync.Mutex
	err   error
	timer *time.Timer // nil: the call has ended, or slow calls are unlimited
	slow  bool
	// heardAt is the time of the last response.
	heardAt time.Time
	// committed means that the call must not be ended before the next response.
	committed bool
}

type slowCallKey struct{}

// watch limits a call until close.
func (p *slowCallLimiter) watch(ctx context.Context, failing bool) *slowCallContext {
	c := &slowCallContext{Context: ctx, limiter: p, failing: failing, done: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endLocked(ctx.Err())
	})
	if p.opts.Limit >= 0 {
		c.mu.Lock()
		c.heardAt = time.Now()
		c.timer = time.AfterFunc(p.opts.Silence, c.onSilence)
		c.mu.Unlock()
	}
	return c
}

func (c *slowCallContext) Done() <-chan struct{} { return c.done }

func (c *slowCallContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *slowCallContext) Value(key any) any {
	if _, ok := key.(slowCallKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func (c *slowCallContext) endLocked(err error) {
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

func (c *slowCallContext) onSilence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timer == nil || c.slow:
	case time.Since(c.heardAt) < c.limiter.opts.Silence: // a late response has reset the timer
	case c.limiter.acquire(c.failing, c.committed):
		c.slow = true
	default:
		c.endLocked(context.DeadlineExceeded)
	}
}

func (c *slowCallContext) releaseLocked() {
	if c.slow {
		c.slow = false
		c.limiter.release(c.failing)
	}
}

// close ends the call and everything that uses its context.
func (c *slowCallContext) close() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.releaseLocked()
	c.endLocked(context.Canceled)
}

// ResponseReceived reports that the BMC of a call has sent a response. Drivers call it with each response, so
// that a call of many requests does not count as slow. Outside of a Pool it does nothing.
func ResponseReceived(ctx context.Context) {
	c, ok := ctx.Value(slowCallKey{}).(*slowCallContext)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return
	}
	c.committed, c.heardAt = false, time.Now()
	c.releaseLocked()
	c.timer.Reset(c.limiter.opts.Silence)
}

// ProtectNextRequest reports that the driver's next request changes something at the BMC that can be undone
// only with the response, as a login does: a session without a token stays open until the BMC ends
// it. The call then does not end early before the next Heard, even without a free slot; it exceeds
// the limit instead. Its deadline stays. Outside of a Pool it does nothing.
func ProtectNextRequest(ctx context.Context) {
	if c, ok := ctx.Value(slowCallKey{}).(*slowCallContext); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.committed = true
	}
}

// mayEndEarly reports whether a call may end before its deadline when its BMC is silent. Only calls
// that workers wait for may: writes would have an unknown outcome (I17), and BMCs answer slowly
// about an update while they write firmware. Committed protects the login of a dial.
func (n CallName) mayEndEarly() bool {
	switch n {
	case CallDial, CallPowerState, CallPollState, CallBootOverride, CallIdentity, CallInventory, CallMediaSlots, CallSettings,
		CallSettingSchemas, CallPendingSettings, CallFirmwareInventory, CallUpdateMethods, CallHealth, CallEventLog, CallSecureBoot, CallIndicator:
		return true
	}
	return false
}

// lock waits for the caller's turn at a BMC. It returns ErrBusy if another call keeps the
// BMC for long.
func (p *Pool) lock(ctx context.Context, e *entry) error {
	select {
	case <-e.lock: // even if ctx has ended
		return nil
	default:
	}
	wait := ctx
	if !isUnhurried(ctx) {
		limited := p.slowCalls.watch(ctx, e.state.isFailing())
		defer limited.close()
		wait = limited
	}
	select {
	case <-e.lock:
		return nil
	case <-wait.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: another Ingot call has used it for %s", ErrBusy, p.opts.SlowCalls.Silence)
}
