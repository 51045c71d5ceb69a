// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of PoolOptions.
const (
	// DefaultCallTimeout is the deadline of one call to a BMC.
	DefaultCallTimeout = 30 * time.Second
	// DefaultIdleTimeout exceeds the 3 minutes between two polls of an idle host, and the
	// 4.5 minutes before the first one, so that sessions survive them.
	DefaultIdleTimeout = 5 * time.Minute
	// DefaultCloseTimeout bounds the end of a session.
	DefaultCloseTimeout = 10 * time.Second
	// DefaultTransferTimeout is enough for 500 MiB at 300 KiB/s, the rate of slow BMCs.
	DefaultTransferTimeout = 30 * time.Minute
)

// ErrPoolClosed reports a call of a pool after Close.
var ErrPoolClosed = errors.New("BMC pool is closed")

// PoolOptions configure a Pool; zero fields mean the defaults.
type PoolOptions struct {
	// CallTimeout is the deadline of each call of a Conn and of each dial. The caller's own
	// deadline applies too.
	CallTimeout time.Duration
	// IdleTimeout is how long an unused session is kept; negative: sessions are closed after
	// each Do.
	IdleTimeout time.Duration
	// CloseTimeout bounds the end of a session, which is independent of the contexts of its calls.
	CloseTimeout time.Duration
	// TransferTimeout is the deadline of a call that transfers an image.
	TransferTimeout time.Duration
	// Pause and Pace protect BMCs, and Patience protects the callers of other BMCs.
	Pause     PauseOptions
	RateLimit RateLimitOptions
	SlowCalls SlowCallOptions
	// Observer receives every call; may be nil.
	Observer Observer
	// SessionLabel labels sessions on BMCs that support it; empty: none.
	SessionLabel SessionLabel
	// Sources are the allowed addresses of BMCs; nil: all.
	Sources *Sources
}

// DefaultPoolOptions returns the options that the zero value stands for.
func DefaultPoolOptions() PoolOptions {
	o := PoolOptions{}.filled()
	o.Observer = nil
	return o
}

func (o PoolOptions) filled() PoolOptions {
	o.CallTimeout, o.IdleTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout), cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.CloseTimeout, o.TransferTimeout = cmp.Or(o.CloseTimeout, DefaultCloseTimeout), cmp.Or(o.TransferTimeout, DefaultTransferTimeout)
	o.Pause, o.RateLimit, o.SlowCalls = o.Pause.filled(), o.RateLimit.filled(), o.SlowCalls.filled()
	if o.Observer == nil {
		o.Observer = func(Call) {}
	}
	return o
}

// Pool keeps at most one session and one call in flight per BMC. Its key is the address
// without the path: the systems behind a BMC share a session if the driver supports it
// (Switcher), and otherwise take turns. A Pool is safe for concurrent use.
type Pool struct {
	dial      Dialer
	opts      PoolOptions
	slowCalls *slowCallLimiter
	logins    loginGuard
	// base is canceled when the context of Close ends; it ends the calls in flight.
	base   context.Context
	cancel context.CancelFunc
	// closing counts the sessions that are being closed in the background.
	closing sync.WaitGroup
	// ended is closed when closed becomes true.
	ended chan struct{}

	mu     sync.Mutex
	closed bool
	// entries, states, swept and peers have the origin of a BMC as the key. States outlive
	// sessions.
	entries map[string]*entry
	states  map[string]*bmcState
	// swept marks the BMCs that were searched for sessions of earlier processes.
	swept map[string]bool
	// peers are the IP addresses and ports that the last login was sent to.
	peers map[string][]string
	// opened counts the sessions.
	opened uint64
}

// NewPool returns a pool that opens sessions with dial. Close ends it.
func NewPool(dial Dialer, opts PoolOptions) *Pool {
	opts = opts.filled()
	base, cancel := context.WithCancel(context.Background())
	return &Pool{
		dial: dial, opts: opts, slowCalls: &slowCallLimiter{opts: opts.SlowCalls}, base: base, cancel: cancel, ended: make(chan struct{}),
		entries: map[string]*entry{}, states: map[string]*bmcState{}, swept: map[string]bool{}, peers: map[string][]string{},
	}
}

// entry is one BMC. The holder of the lock owns its fields, except those that Pool.mu guards.
type entry struct {
	// lock holds one value while no caller uses the BMC.
	lock   chan struct{}
	state  *bmcState
	target Target
	conn   Conn // nil: no session
	gate   *gate
	// session is the number of conn in the pool.
	session uint64

	// Guarded by Pool.mu:
	idle *time.Timer
	// waiting counts the callers that hold or want the lock; they keep the entry.
	waiting int
	// held counts the event streams that keep the session.
	held int
	// forgotten means that the session ends as soon as no caller wants the entry.
	forgotten bool
}

func newEntry(s *bmcState) *entry {
	e := &entry{lock: make(chan struct{}, 1), state: s}
	e.lock <- struct{}{}
	return e
}

// Do calls fn with the session of the target's BMC. It opens a session if there is none, or
// if the target's credentials or trust changed. ctx bounds the wait for the caller's turn.
// fn must not use the Conn after it has returned.
//
// If a session from an earlier Do returns ErrUnauthorized, Do repeats the call once on a
// new session: BMCs forget their sessions when they restart. Nothing else is ever repeated
// (I17). Do refuses calls to a BMC that failed often in a row for a while, with a
// *PausedError. Other errors are those of Dialer and Conn, the context's and ErrPoolClosed.
func (p *Pool) Do(ctx context.Context, target Target, fn func(ctx context.Context, conn Conn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.base, cancel)
	defer stop()

	origin := originOf(target.Address)
	e, err := p.acquire(ctx, origin)
	if err != nil {
		return fmt.Errorf("wait for BMC %s: %w", target.Address, err)
	}
	defer p.release(origin, e)
	now := time.Now()
	paused := e.state.admit(target, now)
	// The pause of the account is the longer one.
	if err := cmp.Or(p.logins.check(origin, target, now), paused); err != nil {
		return fmt.Errorf("BMC %s: %w", target.Address, err)
	}
	done, err := p.acquireRetry(ctx, e)
	if err != nil {
		return fmt.Errorf("BMC %s: %w", target.Address, err)
	}
	defer done()
	if e.conn != nil && !e.switchTo(target) {
		_ = p.closeSession(e) // the observer has the error
	}
	e.target = target
	lease := &lease{pool: p, entry: e, stale: e.conn != nil, answered: done}
	defer lease.end()
	if e.conn == nil {
		if err := p.open(ctx, e); err != nil {
			return err
		}
	}
	return fn(ctx, lease)
}

// Close ends the pool. Calls in flight may finish while ctx lasts and are then canceled.
// Every session is closed at its BMC, even if ctx has ended. The error names the BMCs whose
// session could not be closed.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		close(p.ended)
	}
	p.closed = true
	entries := maps.Clone(p.entries)
	clear(p.entries)
	idle := map[string]*bmcState{}
	for origin, s := range p.states {
		if entries[origin] == nil {
			idle[origin] = s
		}
	}
	for _, e := range entries {
		e.stopIdleTimer()
	}
	p.mu.Unlock()
	defer p.cancel()
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()

	var wg sync.WaitGroup
	failed := make(chan string, len(entries))
	for origin, e := range entries {
		wg.Go(func() {
			if !p.lockForClose(ctx, e) {
				failed <- origin
				return
			}
			if p.closeSession(e) != nil {
				failed <- origin
			} else {
				p.closeOrphans(ctx, origin, e.state, maxOrphans)
			}
			e.lock <- struct{}{} // a background close may be waiting for the lock
		})
	}
	for origin, s := range idle {
		wg.Go(func() { p.closeOrphans(ctx, origin, s, maxOrphans) })
	}
	wg.Wait()
	p.closing.Wait()
	close(failed)
	var names []string
	for origin := range failed {
		names = append(names, origin)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("close BMC sessions: left open at %s", strings.Join(names, ", "))
}

// lockForClose waits for a call in flight while ctx lasts. The call is canceled then, and
// lockForClose waits a little longer: a function that ignores its context must not block
// the end of the process.
func (p *Pool) lockForClose(ctx context.Context, e *entry) bool {
	select {
	case <-e.lock:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(p.opts.CloseTimeout / 2)
	defer grace.Stop()
	select {
	case <-e.lock:
		return true
	case <-grace.C:
		return false
	}
}

// Closed reports whether Close was called; no BMC is called after that.
func (p *Pool) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// acquire returns the locked entry of a BMC.
func (p *Pool) acquire(ctx context.Context, origin string) (*entry, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrPoolClosed
	}
	e, ok := p.entries[origin]
	if !ok {
		s, known := p.states[origin]
		if !known {
			s = &bmcState{limiter: p.opts.RateLimit.limiter()}
			p.states[origin] = s
		}
		e = newEntry(s)
		p.entries[origin] = e
	}
	e.waiting++
	e.stopIdleTimer()
	p.mu.Unlock()

	if err := p.lock(ctx, e); err != nil {
		p.stopWaiting(origin, e)
		return nil, err
	}
	if p.Closed() {
		p.stopWaiting(origin, e)
		e.lock <- struct{}{}
		return nil, ErrPoolClosed
	}
	return e, nil
}

func (p *Pool) release(origin string, e *entry) {
	if p.opts.IdleTimeout < 0 && e.conn != nil && !p.isHeld(e) {
		_ = p.closeSession(e) // the observer has the error
	}
	p.stopWaiting(origin, e)
	e.lock <- struct{}{}
}

func (p *Pool) stopWaiting(origin string, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.waiting--
	p.startIdleTimer(origin, e)
}

// startIdleTimer schedules the end of an entry that no caller wants. Pool.mu is held.
func (p *Pool) startIdleTimer(origin string, e *entry) {
	switch {
	case e.waiting > 0 || p.closed:
		return
	case e.forgotten:
		p.retire(origin, e)
		return
	case e.held > 0:
		return
	}
	e.idle = time.AfterFunc(max(p.opts.IdleTimeout, 0), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.opts.IdleTimeout > 0 && e.state.isFailing() {
			// The BMC would not receive the end of the session. Ingot keeps the session until
			// the BMC answers again.
			p.startIdleTimer(origin, e)
			return
		}
		p.retire(origin, e)
	})
}

// retire closes the session of an entry that no caller wants, and drops the entry, on a
// goroutine that Close waits for. It holds the entry's lock meanwhile, so that new callers
// wait and never open a second session. Pool.mu is held.
func (p *Pool) retire(origin string, e *entry) {
	if e.waiting > 0 || p.closed {
		return
	}
	p.closing.Go(func() {
		select {
		case <-e.lock:
		case <-p.ended: // Close closes the session
			return
		}
		defer func() { e.lock <- struct{}{} }()
		p.mu.Lock()
		wanted := e.waiting > 0 || p.closed || (e.held > 0 && !e.forgotten)
		p.mu.Unlock()
		if wanted {
			return
		}
		_ = p.closeSession(e) // the observer has the error
		p.mu.Lock()
		unused := e.forgotten && p.states[origin] != e.state
		p.mu.Unlock()
		if unused {
			p.closeForgotten(origin, e.state)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		e.forgotten = false
		if e.waiting == 0 && p.entries[origin] == e {
			delete(p.entries, origin)
			if e.state.isEmpty(time.Now()) && p.states[origin] == e.state {
				delete(p.states, origin)
			}
		}
	})
}

func (e *entry) stopIdleTimer() {
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
}

// open dials. The entry's lock is held.
func (p *Pool) open(ctx context.Context, e *entry) error {
	e.gate = &gate{pool: p, target: e.target}
	err := p.observe(ctx, e, CallDial, p.opts.CallTimeout, func(ctx context.Context) error {
		target := e.target
		target.SessionLabel, target.Connecting = p.opts.SessionLabel, e.gate.connecting
		conn, err := p.dial(ctx, target)
		if left, ok := errors.AsType[*OrphanSessionError](err); ok {
			e.state.addOrphan(orphanSession{conn: left.Conn})
		}
		if err != nil {
			return err
		}
		e.conn = conn
		return nil
	})
	p.recordLogin(e.gate, err)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.opened++
	e.session = p.opened
	p.mu.Unlock()
	p.sweep(ctx, e)
	p.closeOrphans(ctx, e.target.Address, e.state, maxOrphansPerLogin)
	return nil
}

// recordLogin remembers the result of a login at each peer that it was sent to.
func (p *Pool) recordLogin(g *gate, err error) {
	if _, unsent := errors.AsType[*PausedError](err); unsent {
		return
	}
	peers := g.loginPeers()
	p.mu.Lock()
	p.peers[g.target.Origin()] = peers[1:]
	p.mu.Unlock()
	p.logins.record(peers, g.target, err, time.Now(), rand.Float64(), p.opts.Pause)
}

// closeSession closes the session, if there is one, independently of the contexts of its
// calls. The entry's lock is held.
func (p *Pool) closeSession(e *entry) error {
	if e.conn == nil {
		return nil
	}
	conn := e.conn
	e.conn = nil
	err := p.observe(context.Background(), e, CallClose, p.opts.CloseTimeout, conn.Close)
	if mayBeOpen(conn, err) {
		e.state.addOrphan(orphanSession{conn: conn})
	}
	return err
}

// observe runs one call with its deadline, passes it to the observer, and records its
// result if the result reflects the state of the BMC.
func (p *Pool) observe(ctx context.Context, e *entry, name CallName, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, rateLimitKey{}, e.state.limiter), timeout)
	defer cancel()
	if name.mayEndEarly() && !isUnhurried(ctx) {
		limited := p.slowCalls.watch(ctx, e.state.isFailing())
		defer limited.close()
		ctx = limited
	}
	start := time.Now()
	err := e.gate.replaceRefusal(f(ctx))
	if _, unsent := errors.AsType[*PausedError](err); name.affectsContact() && !unsent {
		e.state.record(err, time.Now(), p.opts.Pause)
	}
	p.opts.Observer(Call{Address: e.target.Address, Name: name, Duration: time.Since(start), Outcome: OutcomeOf(err)})
	return err
}

// affectsContact reports whether the result of a call reflects the state of the BMC. The
// end of a session does not, and neither does a BMC without a free stream or with old
// sessions that cannot be read.
func (n CallName) affectsContact() bool {
	return n != CallClose && n != CallOpenEvents && n != CallSweep
}

// CallStatus summarizes the recent calls to a BMC.
func (p *Pool) CallStatus(address string) CallStatus {
	p.mu.Lock()
	s, ok := p.states[originOf(address)]
	p.mu.Unlock()
	if !ok {
		return CallStatus{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.contact
}
