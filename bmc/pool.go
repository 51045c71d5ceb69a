// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// DefaultIdleTimeout is longer than the 3 minutes between two polls of a host at
	// rest, and the 4.5 before the first, so that a session outlives them.
	DefaultIdleTimeout = 5 * time.Minute
	// DefaultCloseTimeout is how long a BMC may take to end a session.
	DefaultCloseTimeout = 10 * time.Second
	// DefaultTransferTimeout is enough for 500 MiB at 300 KiB/s, which is what
	// slow BMCs take.
	DefaultTransferTimeout = 30 * time.Minute
)

// ErrPoolClosed reports a call of a pool after Close.
var ErrPoolClosed = errors.New("BMC pool is closed")

// PoolOptions tune a Pool; the zero value is useful.
type PoolOptions struct {
	// CallTimeout is the deadline of every single call of a Conn, and of
	// dialling; 0 means DefaultCallTimeout. The caller's own deadline holds too.
	CallTimeout time.Duration
	// IdleTimeout is how long an unused session is kept; 0 means
	// DefaultIdleTimeout, negative: closed after each Do.
	IdleTimeout time.Duration
	// CloseTimeout bounds the end of a session, whose calls may have been
	// cancelled; 0 means DefaultCloseTimeout.
	CloseTimeout time.Duration
	// TransferTimeout is the deadline of a call that transfers an image; 0 means
	// DefaultTransferTimeout.
	TransferTimeout time.Duration
	// Rest and Pace spare BMCs, Patience spares the callers of others.
	Rest     RestOptions
	Pace     PaceOptions
	Patience PatienceOptions
	// Observer is told of every call; nil: nobody is.
	Observer Observer
	// Mark is given to sessions, where a BMC takes one; empty: none is.
	Mark Mark
	// Sources are where BMCs may be; nil: everywhere.
	Sources *Sources
}

// DefaultPoolOptions are what the zero value means, without an observer.
func DefaultPoolOptions() PoolOptions {
	o := PoolOptions{}.filled()
	o.Observer = nil
	return o
}

func (o PoolOptions) filled() PoolOptions {
	o.CallTimeout, o.IdleTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout), cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.CloseTimeout, o.TransferTimeout = cmp.Or(o.CloseTimeout, DefaultCloseTimeout), cmp.Or(o.TransferTimeout, DefaultTransferTimeout)
	o.Rest, o.Pace, o.Patience = o.Rest.filled(), o.Pace.filled(), o.Patience.filled()
	if o.Observer == nil {
		o.Observer = func(Call) {}
	}
	return o
}

// Pool keeps at most one session and one call in flight per BMC, keyed by its
// address without the path: the systems behind a BMC share them where its driver can
// (Switcher), and take turns at its one session where not. It is safe for concurrent
// use.
type Pool struct {
	dial     Dialer
	opts     PoolOptions
	patience *patience
	logins   loginLedger
	// base is cancelled when Close runs out of patience; it ends what is in flight.
	base   context.Context
	cancel context.CancelFunc
	// closing counts the sessions that are being ended in the background.
	closing sync.WaitGroup

	// ended is closed with closed.
	ended chan struct{}

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry
	// opened counts the sessions.
	opened uint64
	// dealings outlive sessions.
	dealings map[string]*dealings
	// swept are the addresses at which sessions of earlier lives were looked for.
	swept map[string]bool
	// peers are where the last login at an address was sent to.
	peers map[string][]string
}

// NewPool returns a pool whose sessions are opened by dial. Close ends it.
func NewPool(dial Dialer, opts PoolOptions) *Pool {
	opts = opts.filled()
	base, cancel := context.WithCancel(context.Background())
	return &Pool{
		dial: dial, opts: opts, patience: newPatience(opts.Patience), base: base, cancel: cancel, ended: make(chan struct{}),
		entries: map[string]*entry{}, dealings: map[string]*dealings{}, swept: map[string]bool{}, peers: map[string][]string{},
	}
}

// entry is one BMC. Its fields belong to whoever holds the lock, except those
// that Pool.mu guards.
type entry struct {
	// lock holds one value while nobody uses the BMC.
	lock     chan struct{}
	dealings *dealings
	target   Target
	conn     Conn // nil: no session
	gate     *gate
	// session is the number of the pool's session that conn is.
	session uint64

	// Guarded by Pool.mu:
	idle *time.Timer
	// waiting counts those who hold or want the lock; the entry is dropped only
	// when nobody does.
	waiting int
	// held counts the streams of events that the session is kept for.
	held int
	// forgotten: end the session as soon as nobody wants it.
	forgotten bool
}

func newEntry(d *dealings) *entry {
	e := &entry{lock: make(chan struct{}, 1), dealings: d}
	e.lock <- struct{}{}
	return e
}

// Do calls fn with the session of the target's BMC, opening one where there is
// none or where the target's credentials or trust changed. It waits for its
// turn with ctx. The Conn is fn's only until fn returns.
//
// A call that a session opened earlier answers with ErrUnauthorized is repeated
// once on a new session: BMCs forget their sessions when they restart. Nothing
// else is ever repeated (I17). A BMC that failed often in a row is left alone for
// a while: Do then answers with a *RestError and calls nothing. Errors are those
// of Dialer and Conn, the context's, *RestError and ErrPoolClosed.
func (p *Pool) Do(ctx context.Context, target Target, fn func(ctx context.Context, conn Conn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.base, cancel)
	defer stop()

	place := placeOf(target.Address)
	e, err := p.acquire(ctx, place)
	if err != nil {
		return fmt.Errorf("wait for BMC %s: %w", target.Address, err)
	}
	defer p.release(place, e)
	now := time.Now()
	rests := e.dealings.admit(target, now)
	if err := cmp.Or(p.logins.spare(place, target, now), rests); err != nil { // the account's rest is the longer one
		return fmt.Errorf("BMC %s: %w", target.Address, err)
	}
	tried, err := p.turnOf(ctx, e)
	if err != nil {
		return fmt.Errorf("BMC %s: %w", target.Address, err)
	}
	defer tried()
	if e.conn != nil && !e.serves(target) {
		_ = p.closeSession(e) // told to the observer
	}
	e.target = target
	lease := &lease{pool: p, entry: e, stale: e.conn != nil, answered: tried}
	defer lease.end()
	if e.conn == nil {
		if err := p.open(ctx, e); err != nil {
			return err
		}
	}
	return fn(ctx, lease)
}

// Close ends the pool: calls in flight may finish while ctx lasts and are then
// cancelled; every session is ended at its BMC, also when ctx has ended. The
// error names the BMCs whose session could not be ended.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		close(p.ended)
	}
	p.closed = true
	entries := make(map[string]*entry, len(p.entries))
	for address, e := range p.entries {
		e.stopIdle()
		entries[address] = e
	}
	clear(p.entries)
	alone := map[string]*dealings{}
	for address, d := range p.dealings {
		if entries[address] == nil {
			alone[address] = d
		}
	}
	p.mu.Unlock()
	defer p.cancel()
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()

	var wg sync.WaitGroup
	failed := make(chan string, len(entries))
	for address, e := range entries {
		wg.Go(func() {
			if !p.lockForClose(ctx, e) {
				failed <- address
				return
			}
			err := p.closeSession(e)
			if err != nil {
				failed <- address
			} else {
				p.endLeft(ctx, address, e.dealings, maxLeft)
			}
			e.lock <- struct{}{} // a retirement may be waiting for it
		})
	}
	for address, d := range alone {
		wg.Go(func() { p.endLeft(ctx, address, d, maxLeft) })
	}
	wg.Wait()
	p.closing.Wait()
	close(failed)
	var names []string
	for address := range failed {
		names = append(names, address)
	}
	if len(names) > 0 {
		slices.Sort(names)
		return fmt.Errorf("close BMC sessions: left open at %s", strings.Join(names, ", "))
	}
	return nil
}

// lockForClose waits for a call in flight while ctx lasts, then, the call being
// cancelled, a little longer: a function that ignores its context must not hold
// up the process's end.
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

// Closed reports that Close was called: no BMC is asked any more.
func (p *Pool) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *Pool) acquire(ctx context.Context, address string) (*entry, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrPoolClosed
	}
	e, ok := p.entries[address]
	if !ok {
		d, known := p.dealings[address]
		if !known {
			d = &dealings{limiter: p.opts.Pace.limiter()}
			p.dealings[address] = d
		}
		e = newEntry(d)
		p.entries[address] = e
	}
	e.waiting++
	e.stopIdle()
	p.mu.Unlock()

	if err := p.await(ctx, e); err != nil {
		p.leave(address, e)
		return nil, err
	}
	if p.Closed() {
		p.leave(address, e)
		e.lock <- struct{}{}
		return nil, ErrPoolClosed
	}
	return e, nil
}

// release gives the lock back and starts the idle clock.
func (p *Pool) release(address string, e *entry) {
	if p.opts.IdleTimeout < 0 && e.conn != nil && !p.isHeld(e) {
		_ = p.closeSession(e) // told to the observer
	}
	p.leave(address, e)
	e.lock <- struct{}{}
}

// leave is the end of an interest in the entry. The last to leave starts the
// idle clock.
func (p *Pool) leave(address string, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.waiting--
	p.rest(address, e)
}

// rest starts the idle clock of an entry that nobody wants. Pool.mu is held.
func (p *Pool) rest(address string, e *entry) {
	if e.waiting > 0 || p.closed {
		return
	}
	if e.forgotten {
		p.retire(address, e)
		return
	}
	if e.held > 0 {
		return
	}
	e.idle = time.AfterFunc(max(p.opts.IdleTimeout, 0), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.opts.IdleTimeout > 0 && e.dealings.fails() {
			// It would not hear the end of the session, which would then be lost there: it
			// is kept for when the BMC is well again.
			p.rest(address, e)
			return
		}
		p.retire(address, e)
	})
}

// retire ends the session of an entry that nobody wants and drops it, on a
// goroutine that Close waits for. It holds the entry's lock meanwhile, so that
// who comes now waits, and never has a second session. Pool.mu is held.
func (p *Pool) retire(address string, e *entry) {
	if e.waiting > 0 || p.closed {
		return
	}
	p.closing.Go(func() {
		select {
		case <-e.lock:
		case <-p.ended: // Close ends the session
			return
		}
		defer func() { e.lock <- struct{}{} }()
		p.mu.Lock()
		wanted := e.waiting > 0 || p.closed || (e.held > 0 && !e.forgotten)
		p.mu.Unlock()
		if wanted {
			return
		}
		_ = p.closeSession(e) // told to the observer
		p.mu.Lock()
		gone := e.forgotten && p.dealings[address] != e.dealings
		p.mu.Unlock()
		if gone {
			p.partWith(address, e.dealings)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		e.forgotten = false
		if e.waiting == 0 && p.entries[address] == e {
			delete(p.entries, address)
			if e.dealings.void(time.Now()) && p.dealings[address] == e.dealings {
				delete(p.dealings, address)
			}
		}
	})
}

func (e *entry) stopIdle() {
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
}

// open dials. The entry's lock is held.
func (p *Pool) open(ctx context.Context, e *entry) error {
	gate := &gate{pool: p, target: e.target}
	e.gate = gate
	err := p.observe(ctx, e, CallDial, p.opts.CallTimeout, func(ctx context.Context) error {
		target := e.target
		target.Mark, target.Connecting = p.opts.Mark, gate.connecting
		conn, err := p.dial(ctx, target)
		if left, ok := errors.AsType[*LeftOpen](err); ok {
			e.dealings.leave(leftover{conn: left.Conn})
		}
		if err != nil {
			return err
		}
		e.conn = conn
		return nil
	})
	p.noteLogin(gate, err)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.opened++
	e.session = p.opened
	p.mu.Unlock()
	p.sweep(ctx, e)
	p.endLeft(ctx, e.target.Address, e.dealings, endsAtOnce)
	return nil
}

// noteLogin remembers how a login went, at each peer that it was sent to.
func (p *Pool) noteLogin(g *gate, err error) {
	peers := g.reached()
	if _, spared := errors.AsType[*RestError](err); spared {
		return // it was not sent
	}
	p.mu.Lock()
	p.peers[g.target.Place()] = peers[1:]
	p.mu.Unlock()
	p.logins.note(peers, g.target, err, time.Now(), rand.Float64(), p.opts.Rest)
}

// closeSession ends the session, if there is one, whatever became of the
// contexts of its calls. The entry's lock is held.
func (p *Pool) closeSession(e *entry) error {
	if e.conn == nil {
		return nil
	}
	conn := e.conn
	e.conn = nil
	err := p.observe(context.Background(), e, CallClose, p.opts.CloseTimeout, conn.Close)
	if lingers(conn, err) {
		e.dealings.leave(leftover{conn: conn})
	}
	return err
}

// observe runs one call under its deadline, tells the observer, and remembers how
// it went, if that says how the BMC fares.
func (p *Pool) observe(ctx context.Context, e *entry, name CallName, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, paceKey{}, e.dealings.limiter), timeout)
	defer cancel()
	if name.mayBeCut() && !isUnhurried(ctx) {
		limited := p.patience.watch(ctx, e.dealings.fails())
		defer limited.close()
		ctx = limited
	}
	start := time.Now()
	err := e.gate.explain(f(ctx))
	if _, spared := errors.AsType[*RestError](err); name.speaks() && !spared {
		e.dealings.note(err, time.Now(), p.opts.Rest)
	}
	p.opts.Observer(Call{Address: e.target.Address, Name: name, Duration: time.Since(start), Outcome: OutcomeOf(err)})
	return err
}

// Contact tells how the calls to a BMC fare.
func (p *Pool) Contact(address string) Contact {
	p.mu.Lock()
	d, ok := p.dealings[placeOf(address)]
	p.mu.Unlock()
	if !ok {
		return Contact{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contact
}

// equal says whether a session opened for one target serves the other.
func (t Target) equal(other Target) bool {
	return t.Address == other.Address && t.Username == other.Username && t.Password == other.Password &&
		t.InsecureSkipVerify == other.InsecureSkipVerify && t.Fingerprint == other.Fingerprint &&
		string(t.CABundle) == string(other.CABundle)
}
