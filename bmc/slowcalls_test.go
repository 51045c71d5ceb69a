// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// hanging is the Dialer of a silent BMC.
func hanging(ctx context.Context, _ bmc.Target) (bmc.Conn, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("dial: %w: %w", bmc.ErrTimeout, ctx.Err())
}

// TestHangingBMCsLeaveWorkers simulates a controller: 50 workers serve 500 hanging and 200
// healthy BMCs in the order of arrival, and failures are retried after 5 s to 5 min. No
// healthy BMC waits for long.
func TestHangingBMCsLeaveWorkers(t *testing.T) {
	const workers, nHanging, nHealthy, poll = 50, 500, 200, 3 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		healthy := map[string]*fakeBMC{}
		for i := range nHealthy {
			healthy[fmt.Sprintf("healthy-%d", i)] = &fakeBMC{t: t}
		}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if f := healthy[target.Address]; f != nil {
				return f.dial(ctx, target)
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{IdleTimeout: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		queue := make(chan job, nHanging+nHealthy)
		var mu sync.Mutex
		var longest, longestLater time.Duration
		served := 0
		began := time.Now()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for {
					select {
					case <-ctx.Done():
						return
					case j := <-queue:
						waited := time.Since(j.due)
						err := pool.Do(ctx, target(j.address), readState)
						mu.Lock()
						if healthy[j.address] != nil {
							served++
							longest = max(longest, waited)
							if time.Since(began) > 10*time.Minute {
								longestLater = max(longestLater, waited)
							}
							if err != nil {
								t.Errorf("%s: %v", j.address, err)
							}
						}
						mu.Unlock()
						j.requeue(ctx, queue, err, poll)
					}
				}
			})
		}
		for i := range nHanging + nHealthy { // mixed and spread over one poll interval
			name := fmt.Sprintf("hanging-%d", i)
			if i%7 < 2 {
				name = fmt.Sprintf("healthy-%d", i/7*2+i%7)
			}
			j := job{address: name}
			j.enqueueAfter(ctx, queue, poll*time.Duration(i)/(nHanging+nHealthy))
		}
		wg.Wait()
		t.Logf("%d calls to %d healthy BMCs; the longest wait for a worker %s, after 10 minutes %s", served, nHealthy, longest, longestLater)
		if want := nHealthy * int(time.Hour/poll) * 9 / 10; served < want {
			t.Errorf("%d calls, want at least %d", served, want)
		}
		if longest > 15*time.Second || longestLater > time.Second {
			t.Errorf("a healthy host waited %s for a worker, and %s after 10 minutes", longest, longestLater)
		}
		must(t, pool.Close(context.Background()))
	})
}

// job is one host in the queue.
type job struct {
	address string
	due     time.Time
	delay   time.Duration
}

func (j job) requeue(ctx context.Context, queue chan<- job, err error, poll time.Duration) {
	if err == nil {
		j.delay = 0
		j.enqueueAfter(ctx, queue, poll)
		return
	}
	j.delay = min(max(2*j.delay, 5*time.Second), 5*time.Minute)
	j.enqueueAfter(ctx, queue, max(j.delay, bmc.RetryAfter(err)))
}

func (j job) enqueueAfter(ctx context.Context, queue chan<- job, wait time.Duration) {
	time.AfterFunc(wait, func() {
		j.due = time.Now()
		select {
		case queue <- j:
		case <-ctx.Done():
		}
	})
}

// TestFailingBMCsTakeTurns shows that only a few failing BMCs are called at once, and that
// the pause of the others is prolonged.
func TestFailingBMCsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if asked.Add(1) <= 3 {
				return nil, bmc.ErrTimeout
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{SlowCalls: bmc.SlowCallOptions{Limit: 2}})
		for _, name := range []string{"a", "b", "c"} {
			_ = pool.Do(t.Context(), target(name), readState)
		}
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			wg.Go(func() { _ = pool.Do(t.Context(), target(name), readState) })
		}
		synctest.Wait()
		err := pool.Do(t.Context(), target("c"), readState)
		var rest *bmc.PausedError
		if !errors.As(err, &rest) || rest.Failures != 1 || !errors.Is(err, bmc.ErrTimeout) || rest.RetryAfter <= 0 || rest.RetryAfter > time.Minute || asked.Load() != 5 {
			t.Errorf("the third: %v, %d dials; want a pause", err, asked.Load())
		}
		if c := pool.CallStatus("c"); c.Failures != 1 {
			t.Errorf("contact %+v", c)
		}
		wg.Wait()
		_ = pool.Do(t.Context(), target("c"), readState)
		if n := asked.Load(); n != 6 {
			t.Errorf("%d dials, want a call to the third when a slot is free", n)
		}
	})
}

// TestSlowCallsEndEarly shows that a silent BMC gets the call's whole deadline while a slot
// is free, and that a BMC that responds needs no slot.
func TestSlowCallsEndEarly(t *testing.T) {
	type call struct {
		name string
		// responses every 4 s, then silence until the end.
		responses int
		fail      bool
		want      time.Duration
	}
	for _, tc := range []struct {
		name  string
		slow  int
		calls []call // each starts a second after the one before
	}{
		{"alone", 2, []call{{"a", 0, false, 30 * time.Second}}},
		{"a slot each", 2, []call{{"a", 0, false, 30 * time.Second}, {"b", 0, false, 30 * time.Second}}},
		{"no slot for the third", 2, []call{{"a", 0, false, 30 * time.Second}, {"b", 0, false, 30 * time.Second}, {"c", 0, false, 5 * time.Second}}},
		{"responses need no slot", 1, []call{{"a", 0, false, 30 * time.Second}, {"b", 4, false, (4*4 + 5) * time.Second}}},
		{"half for failing BMCs", 2, []call{{"a", 0, true, 30 * time.Second}, {"b", 0, true, 5 * time.Second}, {"c", 0, false, 30 * time.Second}}},
		{"unlimited", -1, []call{{"a", 0, false, 30 * time.Second}, {"b", 0, false, 30 * time.Second}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				responses := map[string]int{}
				failing := map[string]bool{}
				for _, c := range tc.calls {
					responses[c.name], failing[c.name] = c.responses, c.fail
				}
				var mu sync.Mutex
				pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
					mu.Lock()
					fail := failing[target.Address]
					failing[target.Address] = false
					mu.Unlock()
					if fail {
						return nil, bmc.ErrUnreachable
					}
					for range responses[target.Address] {
						time.Sleep(4 * time.Second)
						bmc.ResponseReceived(ctx)
					}
					return hanging(ctx, target)
				}, bmc.PoolOptions{SlowCalls: bmc.SlowCallOptions{Limit: tc.slow}, Pause: bmc.PauseOptions{After: -1}})
				var wg sync.WaitGroup
				for i, c := range tc.calls {
					if c.fail {
						_ = pool.Do(t.Context(), target(c.name), readState)
					}
					wg.Go(func() {
						time.Sleep(time.Duration(i) * time.Second)
						start := time.Now()
						err := pool.Do(t.Context(), target(c.name), readState)
						if took := time.Since(start); took != c.want || !errors.Is(err, bmc.ErrTimeout) {
							t.Errorf("%s took %s, %v; want %s and ErrTimeout", c.name, took, err, c.want)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// TestWritesDoNotEndEarly: the outcome of such a write would be unknown (I17).
func TestWritesDoNotEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if target.Address == "a" {
				return f.dial(ctx, target)
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{SlowCalls: bmc.SlowCallOptions{Limit: 1}})
		must(t, pool.Do(t.Context(), target("a"), readState))
		f.block = make(chan struct{})
		go func() { _ = pool.Do(t.Context(), target("other"), readState) }()
		start := time.Now()
		err := pool.Do(t.Context(), target("a"), setPower)
		if took := time.Since(start); took != 30*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write ended after %s: %v", took, err)
		}
		close(f.block)
	})
}

// TestLoginsDoNotEndEarly: the BMC would open a session that Ingot has no token to close.
func TestLoginsDoNotEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answersAfter := map[string]time.Duration{"answers": 8 * time.Second, "never": time.Hour}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if takes, ok := answersAfter[target.Address]; ok {
				bmc.ProtectNextRequest(ctx)
				select {
				case <-time.After(takes):
					bmc.ResponseReceived(ctx)
				case <-ctx.Done():
				}
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{SlowCalls: bmc.SlowCallOptions{Limit: 1}, Pause: bmc.PauseOptions{After: -1}})
		takes := func(name string, want time.Duration) {
			t.Helper()
			start := time.Now()
			err := pool.Do(t.Context(), target(name), readState)
			if took := time.Since(start); took != want || !errors.Is(err, bmc.ErrTimeout) {
				t.Errorf("%s took %s, %v; want %s and ErrTimeout", name, took, err, want)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { takes("has the slot", 30*time.Second) })
		time.Sleep(time.Second)
		wg.Go(func() { takes("answers", 13*time.Second) }) // then like any other call
		wg.Go(func() { takes("never", 30*time.Second) })
		wg.Go(func() { takes("no login", 5*time.Second) })
		wg.Wait()
		wg.Go(func() { takes("never", 30*time.Second) })
		time.Sleep(6 * time.Second)
		takes("second", 5*time.Second) // the slow login beyond the limit counts
		wg.Wait()
		takes("slots are free", 30*time.Second)
		must(t, pool.Close(t.Context()))
		bmc.ProtectNextRequest(t.Context()) // does nothing outside of a pool
	})
}

// TestWaitForABusyBMCEndsEarly shows that a caller gets ErrBusy if another call keeps the
// BMC for long and no slot is free.
func TestWaitForABusyBMCEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, block: make(chan struct{})}
		pool := newPool(t, f.dial, bmc.PoolOptions{SlowCalls: bmc.SlowCallOptions{Limit: 1}})
		var wg sync.WaitGroup
		wg.Go(func() { _ = pool.Do(t.Context(), target("a"), setPower) })
		synctest.Wait()
		wg.Go(func() { _ = pool.Do(t.Context(), target("a"), readState) }) // takes the slot
		time.Sleep(time.Second)
		err := pool.Do(t.Context(), target("a"), readState)
		if !errors.Is(err, bmc.ErrBusy) || !strings.Contains(err.Error(), "another Ingot call") {
			t.Errorf("error %v, want ErrBusy", err)
		}
		close(f.block)
		wg.Wait()
	})
}

// TestUnhurriedUsesNoSlots covers the wait for a BMC and the call of a silent one.
func TestUnhurriedUsesNoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, block: make(chan struct{})}
		pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if target.Address == "works" {
				return f.dial(ctx, target)
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{CallTimeout: time.Hour, SlowCalls: bmc.SlowCallOptions{Limit: 1}, Pause: bmc.PauseOptions{After: -1}})
		var wg sync.WaitGroup
		wg.Go(func() { _ = pool.Do(t.Context(), target("works"), setPower) }) // as long as a firmware push
		synctest.Wait()
		unhurried := bmc.WithoutWorker(t.Context())
		wg.Go(func() {
			if err := pool.Do(unhurried, target("works"), readState); err != nil {
				t.Errorf("in the queue: %v", err)
			}
		})
		wg.Go(func() { _ = pool.Do(unhurried, target("silent"), readState) })
		time.Sleep(time.Minute)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		err := pool.Do(ctx, target("hanging"), readState)
		if took := time.Since(start); took != 25*time.Second {
			t.Errorf("the only slot was in use: a call had %s: %v", took, err)
		}
		close(f.block)
		wg.Wait()
	})
}

// TestUnhurriedCallsFewFailingBMCs shows that Unhurried calls do not use the slots of
// workers for failing BMCs.
func TestUnhurriedCallsFewFailingBMCs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if asked.Add(1) <= 10 {
				return nil, bmc.ErrTimeout
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{SlowCalls: bmc.SlowCallOptions{Limit: 4}})
		for i := range 10 {
			_ = pool.Do(t.Context(), target(fmt.Sprint(i)), readState)
		}
		var wg sync.WaitGroup
		for i := range 10 {
			ctx := t.Context()
			if i < 5 {
				ctx = bmc.WithoutWorker(ctx)
			}
			wg.Go(func() { _ = pool.Do(ctx, target(fmt.Sprint(i)), readState) })
			synctest.Wait()
		}
		if n := asked.Load() - 10; n != 1+4 {
			t.Errorf("%d calls, want 1 unhurried and 4 others", n)
		}
		wg.Wait()
	})
}

// TestCallEndsItsContext shows that the context of a call ends with the call.
func TestCallEndsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		f := &fakeBMC{t: t}
		pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			context.AfterFunc(ctx, func() { ended.Store(true) }) // never stopped
			return f.dial(ctx, target)
		}, bmc.PoolOptions{IdleTimeout: time.Hour})
		must(t, pool.Do(t.Context(), target("a"), readState))
		synctest.Wait()
		if !ended.Load() {
			t.Error("the context of a call outlives it")
		}
	})
}
