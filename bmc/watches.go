// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Defaults of WatchOptions.
const (
	DefaultWatchFirst    = 30 * time.Second
	DefaultWatchMax      = 10 * time.Minute
	DefaultWatchRate     = 10
	DefaultWatchSettled  = time.Minute
	DefaultWatchRecheck  = 24 * time.Hour
	DefaultWatchInterval = time.Minute
	DefaultWatchBurst    = 3
)

// WatchEventKind is the kind of a Watches notification.
type WatchEventKind string

const (
	// WatchStarted: a stream was opened; the BMC reports changes from now on.
	WatchStarted WatchEventKind = "Begun"
	// WatchChanged: the BMC sent an event; read its state.
	WatchChanged WatchEventKind = "Happened"
	// WatchEnded: the stream ended.
	WatchEnded WatchEventKind = "Ended"
)

// WatchOptions configure Watches; zero fields mean the defaults.
type WatchOptions struct {
	// Notify receives all notifications with the key given to Want. It is called from a
	// goroutine of the watch and must not block. Required.
	Notify func(key string, kind WatchEventKind)
	// First is the pause before an ended stream is opened again. Each further pause doubles,
	// up to Max, and is shortened at random by up to a half. A stream that lasted for
	// Settled resets the pause.
	First, Max, Settled time.Duration
	// Rate bounds the streams that are opened per second, for all BMCs, so that a network
	// outage does not end with thousands of handshakes at once.
	Rate float64
	// Recheck is the pause before a BMC without event streams is tried again.
	Recheck time.Duration
	// Burst is the number of notifications per BMC that are delivered at once; then one per
	// Interval is, so that a sensor at its threshold does not cause endless reads. Pending
	// notifications are merged.
	Burst    int
	Interval time.Duration
}

// DefaultWatchOptions returns the options that zero fields stand for, without Notify.
func DefaultWatchOptions() WatchOptions { return WatchOptions{}.filled() }

func (o WatchOptions) filled() WatchOptions {
	o.First, o.Max = cmp.Or(max(o.First, 0), DefaultWatchFirst), cmp.Or(max(o.Max, 0), DefaultWatchMax)
	o.Max = max(o.Max, o.First)
	o.Settled, o.Recheck = cmp.Or(max(o.Settled, 0), DefaultWatchSettled), cmp.Or(max(o.Recheck, 0), DefaultWatchRecheck)
	o.Rate, o.Burst = cmp.Or(max(o.Rate, 0), DefaultWatchRate), cmp.Or(max(o.Burst, 0), DefaultWatchBurst)
	o.Interval = cmp.Or(max(o.Interval, 0), DefaultWatchInterval)
	return o
}

// WatchCounts are the numbers of streams and events, for metrics.
type WatchCounts struct {
	// Live streams are open, and Waiting streams are about to be opened. Unsupported counts
	// the BMCs without event streams.
	Live, Waiting, Unsupported int
	// Events and Ended count the received events and the ended streams.
	Events, Ended uint64
}

// Watches keeps one event stream open to each BMC that is wanted. Each stream has one
// goroutine, which ends with Drop or Close. It is safe for concurrent use.
type Watches struct {
	pool *Pool
	opts WatchOptions
	base context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu            sync.Mutex
	closed        bool
	watches       map[string]*watch
	nextOpen      time.Time // when the next stream may be opened
	events, ended uint64
}

// watch is one BMC. Watches.mu guards the fields that change.
type watch struct {
	key    string
	target Target
	cancel context.CancelFunc

	live bool
	// recheck is when a BMC without event streams is tried again; zero: it may have some.
	recheck time.Time
	limiter *rate.Limiter
	pending *time.Timer
}

// NewWatches returns watches without any BMC. Close ends them.
func NewWatches(pool *Pool, opts WatchOptions) *Watches {
	base, end := context.WithCancel(context.Background())
	return &Watches{pool: pool, opts: opts.filled(), base: base, end: end, watches: map[string]*watch{}}
}

// Want watches a BMC until Drop. It does nothing if the key is watched already with the
// same target, or if the BMC has no event streams.
func (w *Watches) Want(key string, target Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if old := w.watches[key]; old != nil {
		if old.target.equal(target) && (old.recheck.IsZero() || time.Now().Before(old.recheck)) {
			return
		}
		w.stopLocked(old)
	}
	ctx, cancel := context.WithCancel(w.base)
	n := &watch{key: key, target: target, cancel: cancel, limiter: rate.NewLimiter(rate.Every(w.opts.Interval), w.opts.Burst)}
	w.watches[key] = n
	w.work.Go(func() {
		defer cancel()
		w.run(ctx, n)
	})
}

// Drop ends the watch of a key, if there is one. It does not wait.
func (w *Watches) Drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.watches[key]; n != nil {
		w.stopLocked(n)
	}
}

// stopLocked ends a watch; it sends no notification after that.
func (w *Watches) stopLocked(n *watch) {
	n.cancel()
	n.live = false
	if n.pending != nil {
		n.pending.Stop()
	}
	delete(w.watches, n.key)
}

// Watched reports whether the stream of a key is open.
func (w *Watches) Watched(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.watches[key]
	return n != nil && n.live
}

// Counts returns the current numbers.
func (w *Watches) Counts() WatchCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := WatchCounts{Events: w.events, Ended: w.ended}
	for _, n := range w.watches {
		switch {
		case n.live:
			c.Live++
		case !n.recheck.IsZero():
			c.Unsupported++
		default:
			c.Waiting++
		}
	}
	return c
}

// Close ends all watches and waits for them.
func (w *Watches) Close() {
	w.mu.Lock()
	w.closed = true
	for _, n := range w.watches {
		w.stopLocked(n)
	}
	w.end()
	w.mu.Unlock()
	w.work.Wait()
}

// run keeps a stream open.
func (w *Watches) run(ctx context.Context, n *watch) {
	for delay := w.opts.First; ; delay = min(2*delay, w.opts.Max) {
		if !sleep(ctx, w.untilNextOpen()) {
			return
		}
		lasted, err := w.stream(ctx, n)
		switch {
		case ctx.Err() != nil, errors.Is(err, ErrPoolClosed):
			return
		case errors.Is(err, ErrNotSupported):
			w.mu.Lock()
			n.recheck = time.Now().Add(w.opts.Recheck)
			w.mu.Unlock()
			return
		case lasted >= w.opts.Settled:
			delay = w.opts.First
		case errors.Is(err, ErrAddress): // an operator must correct it, or the BMC is still starting
			delay = w.opts.Max
		}
		wait := max(delay, RetryAfter(err))
		if !sleep(ctx, wait-time.Duration(rand.Float64()*float64(wait)/2)) {
			return
		}
	}
}

// untilNextOpen reserves the next time at which a stream may be opened.
func (w *Watches) untilNextOpen() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.nextOpen.Before(now) {
		w.nextOpen = now
	}
	wait := w.nextOpen.Sub(now)
	w.nextOpen = w.nextOpen.Add(time.Duration(float64(time.Second) / w.opts.Rate))
	return wait
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// stream opens a stream, reads it until it ends, and returns how long it lasted.
func (w *Watches) stream(ctx context.Context, n *watch) (lasted time.Duration, err error) {
	var stream EventStream
	err = w.pool.Do(WithoutWorker(ctx), n.target, func(ctx context.Context, conn Conn) (err error) {
		stream, err = conn.OpenEvents(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer func() {
		stop()
		_ = stream.Close()
	}()
	start := time.Now()
	if !w.setLive(n, true) {
		return 0, context.Canceled
	}
	for {
		if _, err := stream.Next(); err != nil {
			w.setLive(n, false)
			return time.Since(start), err
		}
		w.onEvent(n)
	}
}

// setLive records the start or the end of a stream and notifies about it. It returns false
// if the watch was stopped meanwhile.
func (w *Watches) setLive(n *watch, live bool) bool {
	w.mu.Lock()
	current := w.watches[n.key] == n
	n.live = current && live
	if current && !live {
		w.ended++
	}
	w.mu.Unlock()
	switch {
	case current && live:
		w.opts.Notify(n.key, WatchStarted)
	case current:
		w.opts.Notify(n.key, WatchEnded)
	}
	return current
}

// onEvent notifies about an event, at once or when the limiter allows it.
func (w *Watches) onEvent(n *watch) {
	w.mu.Lock()
	w.events++
	if w.watches[n.key] != n || n.pending != nil {
		w.mu.Unlock()
		return
	}
	wait := n.limiter.Reserve().Delay()
	if wait > 0 {
		n.pending = time.AfterFunc(wait, func() { w.notifyPending(n) })
	}
	w.mu.Unlock()
	if wait == 0 {
		w.opts.Notify(n.key, WatchChanged)
	}
}

func (w *Watches) notifyPending(n *watch) {
	w.mu.Lock()
	current := w.watches[n.key] == n
	n.pending = nil
	w.mu.Unlock()
	if current {
		w.opts.Notify(n.key, WatchChanged)
	}
}
