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

// Defaults of PatienceOptions.
const (
	DefaultSilence = 5 * time.Second
	// DefaultSlow is a quarter of the hosts that the manager reconciles at once.
	DefaultSlow = 12
)

// PatienceOptions bound how many callers wait for BMCs that say nothing, so that a
// caller with few workers has some left for the BMCs that answer, however many hang
// (docs/decisions/0142). Zero fields mean the defaults.
type PatienceOptions struct {
	// Silence is how long a call may wait for a sign of life of its BMC, and how long a
	// caller waits for its turn, before it counts as slow.
	Silence time.Duration
	// Slow is how many calls, of all BMCs, may be slow at once; more of them end as by
	// their deadline. BMCs that failed the last time get half of these places at most,
	// and no more than Slow of them are called at all at a time: the others rest a little
	// longer. Give 2 at least: the half of 1 is all of it. Negative: any number.
	Slow int
}

func (o PatienceOptions) filled() PatienceOptions {
	return PatienceOptions{Silence: cmp.Or(o.Silence, DefaultSilence), Slow: cmp.Or(o.Slow, DefaultSlow)}
}

// patience hands out the places for slow calls.
type patience struct {
	opts PatienceOptions

	mu sync.Mutex
	// slow is how many places are taken, failing how many of them by BMCs that failed
	// the last time.
	slow, failing int
	// trying is how many BMCs that failed the last time are being called, and lingering
	// how many of them by those who keep no worker.
	trying, lingering int
}

type unhurriedKey struct{}

// Unhurried marks the calls of one who keeps no worker while it waits, as a stream of
// events or a push of firmware does. They take no place from those who do, and are not
// ended early for the want of one: a call has its whole time, and a wait for the BMC's
// turn as long as ctx lasts. Of BMCs that failed the last time, they call a quarter of
// PatienceOptions.Slow at once.
func Unhurried(ctx context.Context) context.Context {
	return context.WithValue(ctx, unhurriedKey{}, true)
}

func isUnhurried(ctx context.Context) bool {
	unhurried, _ := ctx.Value(unhurriedKey{}).(bool)
	return unhurried
}

func newPatience(o PatienceOptions) *patience { return &patience{opts: o} }

func (p *patience) take(failing bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow >= p.opts.Slow || failing && p.failing >= max(1, p.opts.Slow/2) {
		return false
	}
	p.add(failing)
	return true
}

// add takes a place, above the limit too. The lock is held.
func (p *patience) add(failing bool) {
	p.slow++
	if failing {
		p.failing++
	}
}

// exceed takes a place for what may not be cut.
func (p *patience) exceed(failing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(failing)
}

// try takes a place for a BMC that failed the last time, until done.
func (p *patience) try(unhurried bool) (done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count, limit := &p.trying, p.opts.Slow
	if unhurried {
		count, limit = &p.lingering, max(1, p.opts.Slow/4)
	}
	if p.opts.Slow >= 0 && *count >= limit {
		return nil, false
	}
	*count++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		*count--
	}), true
}

// turnOf takes a place for a BMC that failed the last time, until done; others need
// none. Without a place the BMC rests a little longer.
func (p *Pool) turnOf(ctx context.Context, e *entry) (done func(), _ error) {
	if !e.dealings.fails() {
		return func() {}, nil
	}
	if done, ok := p.patience.try(isUnhurried(ctx)); ok {
		return done, nil
	}
	d := e.dealings
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := p.opts.Rest.Max
	return nil, &RestError{RetryAfter: wait/2 + rand.N(wait/2+1), Failures: d.contact.Failures, Err: d.contact.Err}
}

func (p *patience) giveBack(failing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow--
	if failing {
		p.failing--
	}
}

// limited is the context of a call that ends early, as by its deadline, when its BMC
// is silent and there is no place for slow calls. Drivers tell the two apart by nothing:
// a BMC that does not answer is silent, however long it was waited for.
type limited struct {
	context.Context
	patience *patience
	failing  bool
	done     chan struct{}
	// stop ends the watch of the outer context.
	stop func() bool

	mu    sync.Mutex
	err   error
	timer *time.Timer // nil: the call is over, or may be slow without limit
	slow  bool
	// sign is when the last sign of life came.
	sign time.Time
	// committed: what is under way may not be cut, up to the next sign of life.
	committed bool
}

type patienceKey struct{}

// watch limits a call. Its end is close.
func (p *patience) watch(ctx context.Context, failing bool) *limited {
	c := &limited{Context: ctx, patience: p, failing: failing, done: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
	if p.opts.Slow >= 0 {
		c.mu.Lock()
		c.sign = time.Now()
		c.timer = time.AfterFunc(p.opts.Silence, c.silent)
		c.mu.Unlock()
	}
	return c
}

// Done implements context.Context.
func (c *limited) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *limited) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context.
func (c *limited) Value(key any) any {
	if _, ok := key.(patienceKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func (c *limited) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *limited) endLocked(err error) {
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

// silent is called when there was no sign of life for too long.
func (c *limited) silent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timer == nil || c.slow:
	case time.Since(c.sign) < c.patience.opts.Silence: // a sign came at the last moment, and set the timer anew
	case c.patience.take(c.failing):
		c.slow = true
	case c.committed:
		c.patience.exceed(c.failing)
		c.slow = true
	default:
		c.endLocked(context.DeadlineExceeded)
	}
}

// commit spares what is sent next.
func (c *limited) commit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed = true
}

// heard is a sign of life.
func (c *limited) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return
	}
	c.committed, c.sign = false, time.Now()
	c.giveBack()
	c.timer.Reset(c.patience.opts.Silence)
}

// giveBack is called with the lock held.
func (c *limited) giveBack() {
	if c.slow {
		c.slow = false
		c.patience.giveBack(c.failing)
	}
}

// close is the end of the call, and of all that hangs on its context.
func (c *limited) close() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.giveBack()
	c.endLocked(context.Canceled)
}

// Heard tells that the BMC of a call gave a sign of life. Drivers call it with each
// answer: a call of many requests may take long without being slow. Outside a Pool it
// does nothing.
func Heard(ctx context.Context) {
	if c, ok := ctx.Value(patienceKey{}).(*limited); ok {
		c.heard()
	}
}

// Committed tells that what the driver sends next changes something at the BMC that only
// the answer tells how to undo, as a login does: a session of which we have no token stays
// open until the BMC ends it. Though its BMC is silent and all places are taken, the call
// is not ended early before the next Heard; it takes a place above their number then.
// Its deadline stays. Outside a Pool it does nothing.
func Committed(ctx context.Context) {
	if c, ok := ctx.Value(patienceKey{}).(*limited); ok {
		c.commit()
	}
}

// mayBeCut says whether a call may be ended before its deadline when its BMC is silent.
// A write never is: what became of it would be unknown (I17); nor is the login of a dial
// (Committed), nor the question how far an update is: BMCs answer slowly while they write
// firmware; nor is what is not asked by those who wait in a queue.
func (n CallName) mayBeCut() bool {
	switch n {
	case CallDial, CallPowerState, CallVitals, CallBootOverride, CallIdentity, CallInventory, CallMediaSlots, CallSettings,
		CallSettingSchemas, CallPendingSettings, CallFirmwareInventory, CallUpdateWays, CallHealth, CallEventLog, CallSecureBoot, CallIndicator:
		return true
	}
	return false
}

// await waits for the caller's turn at a BMC. One that another call of ours keeps for
// long is busy.
func (p *Pool) await(ctx context.Context, e *entry) error {
	select {
	case <-e.lock: // at once
		return nil
	default:
	}
	if isUnhurried(ctx) {
		select {
		case <-e.lock:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	limited := p.patience.watch(ctx, e.dealings.fails())
	defer limited.close()
	select {
	case <-e.lock:
		return nil
	case <-limited.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: another call of Ingot's has had it for %s", ErrBusy, p.patience.opts.Silence)
}
