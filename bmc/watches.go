// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
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

// NewsKind is what Watches tell of.
type NewsKind string

// The kinds of news.
const (
	// NewsBegun: from now on the BMC tells by itself.
	NewsBegun NewsKind = "Begun"
	// NewsHappened: it told something; look.
	NewsHappened NewsKind = "Happened"
	// NewsEnded: it tells nothing any more.
	NewsEnded NewsKind = "Ended"
)

// WatchOptions tune Watches; zero fields mean the defaults.
type WatchOptions struct {
	// Notify gets all news, of the key that wanted them, from a goroutine of the
	// watch's: it must not block. Required.
	Notify func(key string, kind NewsKind)
	// First is the pause before a stream that ended is opened again, doubled up to
	// Max, and shortened at random by up to a half. A stream that lived for Settled
	// starts afresh.
	First, Max, Settled time.Duration
	// Rate bounds the streams that are opened, of all BMCs, per second: a network that
	// comes back must not meet thousands of handshakes at once.
	Rate float64
	// Recheck is when a BMC that has no events is asked again.
	Recheck time.Duration
	// Burst news of one BMC come at once, then one per Interval: a sensor at its
	// threshold must not have its BMC asked without end. News that wait are one.
	Burst    int
	Interval time.Duration
}

// DefaultWatchOptions are what zero fields mean, without Notify.
func DefaultWatchOptions() WatchOptions { return WatchOptions{}.filled() }

func (o WatchOptions) filled() WatchOptions {
	fill := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	fill(&o.First, DefaultWatchFirst)
	fill(&o.Max, DefaultWatchMax)
	fill(&o.Settled, DefaultWatchSettled)
	fill(&o.Recheck, DefaultWatchRecheck)
	fill(&o.Interval, DefaultWatchInterval)
	o.Max = max(o.Max, o.First)
	if o.Rate <= 0 {
		o.Rate = DefaultWatchRate
	}
	if o.Burst <= 0 {
		o.Burst = DefaultWatchBurst
	}
	return o
}

// WatchCounts say how the watches fare, for metrics.
type WatchCounts struct {
	// Live streams are open; Waiting ones are about to be opened, or opened again;
	// Unsupported BMCs have no events.
	Live, Waiting, Unsupported int
	// Events told, and streams Ended, so far.
	Events, Ended uint64
}

// Watches keep one stream of events with each BMC that is wanted. Each is one
// goroutine, which ends with Drop or Close. They are safe for concurrent use.
type Watches struct {
	pool *Pool
	opts WatchOptions
	base context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu            sync.Mutex
	closed        bool
	watches       map[string]*watch
	slot          time.Time // when the next stream may be opened
	events, ended uint64
}

// watch is one BMC. Its fields, but for those that do not change, are guarded by
// Watches.mu.
type watch struct {
	key    string
	target Target
	cancel context.CancelFunc

	live bool
	// recheck is when a BMC without events is asked again; zero: it may have some.
	recheck time.Time
	limiter *rate.Limiter
	pending *time.Timer
}

// NewWatches returns watches without any BMC. Close ends them.
func NewWatches(pool *Pool, opts WatchOptions) *Watches {
	base, end := context.WithCancel(context.Background())
	return &Watches{pool: pool, opts: opts.filled(), base: base, end: end, watches: map[string]*watch{}}
}

// Want has a BMC watched until Drop. It does nothing where it is watched already,
// by the same target, or where it has no events.
func (w *Watches) Want(key string, target Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if have := w.watches[key]; have != nil {
		if have.target.equal(target) && (have.recheck.IsZero() || time.Now().Before(have.recheck)) {
			return
		}
		w.stop(have)
	}
	ctx, cancel := context.WithCancel(w.base)
	fresh := &watch{key: key, target: target, cancel: cancel, limiter: rate.NewLimiter(rate.Every(w.opts.Interval), w.opts.Burst)}
	w.watches[key] = fresh
	w.work.Go(func() {
		defer cancel()
		w.run(ctx, fresh)
	})
}

// Drop ends the watch of a key, if there is one. It does not wait.
func (w *Watches) Drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := w.watches[key]; have != nil {
		w.stop(have)
	}
}

// stop is called with the lock held. There is no news of a watch that was stopped.
func (w *Watches) stop(have *watch) {
	have.cancel()
	have.live = false
	if have.pending != nil {
		have.pending.Stop()
	}
	delete(w.watches, have.key)
}

// Watched says whether the stream of a key is open.
func (w *Watches) Watched(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.watches[key]
	return have != nil && have.live
}

// Counts for metrics.
func (w *Watches) Counts() WatchCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := WatchCounts{Events: w.events, Ended: w.ended}
	for _, have := range w.watches {
		switch {
		case have.live:
			c.Live++
		case !have.recheck.IsZero():
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
	for _, have := range w.watches {
		w.stop(have)
	}
	w.end()
	w.mu.Unlock()
	w.work.Wait()
}

// run keeps a stream open.
func (w *Watches) run(ctx context.Context, have *watch) {
	for delay := w.opts.First; ; delay = min(2*delay, w.opts.Max) {
		if !sleep(ctx, w.turn()) {
			return
		}
		lived, err := w.stream(ctx, have)
		switch {
		case ctx.Err() != nil, errors.Is(err, ErrPoolClosed):
			return
		case errors.Is(err, ErrNotSupported):
			w.mu.Lock()
			have.recheck = time.Now().Add(w.opts.Recheck)
			w.mu.Unlock()
			return
		case lived >= w.opts.Settled:
			delay = w.opts.First
		case errors.Is(err, ErrAddress): // a person corrects it; or its systems are not there yet
			delay = w.opts.Max
		}
		wait := max(delay, RetryAfter(err))
		if !sleep(ctx, wait-time.Duration(rand.Float64()*float64(wait)/2)) {
			return
		}
	}
}

// turn is how long it is to the caller's turn to open a stream.
func (w *Watches) turn() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.slot.Before(now) {
		w.slot = now
	}
	wait := w.slot.Sub(now)
	w.slot = w.slot.Add(time.Duration(float64(time.Second) / w.opts.Rate))
	return wait
}

// sleep returns false when ctx has ended.
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

// stream opens a stream and reads it to its end.
func (w *Watches) stream(ctx context.Context, have *watch) (lived time.Duration, err error) {
	var stream EventStream
	err = w.pool.Do(Unhurried(ctx), have.target, func(ctx context.Context, conn Conn) (err error) {
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
	if !w.begun(have) {
		return 0, context.Canceled
	}
	for {
		event, err := stream.Next()
		if err != nil {
			w.over(have)
			return time.Since(start), err
		}
		w.happened(have, event)
	}
}

// begun returns false when the watch was stopped meanwhile.
func (w *Watches) begun(have *watch) bool {
	w.mu.Lock()
	ours := w.watches[have.key] == have
	have.live = ours
	w.mu.Unlock()
	if ours {
		w.opts.Notify(have.key, NewsBegun)
	}
	return ours
}

func (w *Watches) over(have *watch) {
	w.mu.Lock()
	ours := w.watches[have.key] == have
	have.live = false
	if ours {
		w.ended++
	}
	w.mu.Unlock()
	if ours {
		w.opts.Notify(have.key, NewsEnded)
	}
}

// happened tells of an event, at once or when its turn has come.
func (w *Watches) happened(have *watch, _ Event) {
	w.mu.Lock()
	w.events++
	if w.watches[have.key] != have || have.pending != nil {
		w.mu.Unlock()
		return
	}
	wait := have.limiter.Reserve().Delay()
	if wait > 0 {
		have.pending = time.AfterFunc(wait, func() { w.due(have) })
	}
	w.mu.Unlock()
	if wait == 0 {
		w.opts.Notify(have.key, NewsHappened)
	}
}

// due tells of what waited.
func (w *Watches) due(have *watch) {
	w.mu.Lock()
	ours := w.watches[have.key] == have
	have.pending = nil
	w.mu.Unlock()
	if ours {
		w.opts.Notify(have.key, NewsHappened)
	}
}
