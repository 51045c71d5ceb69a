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

// hanging is a BMC that says nothing.
func hanging(ctx context.Context, _ bmc.Target) (bmc.Conn, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("dial: %w: %w", bmc.ErrTimeout, ctx.Err())
}

// TestHangingBMCsLeaveWorkers: 500 BMCs hang from one moment on, 50 workers serve them
// and 200 that are well, as a controller's queue does: first come, first served; who
// failed comes again after 5 s to 5 min. Nobody who is well waits for long.
func TestHangingBMCsLeaveWorkers(t *testing.T) {
	const workers, ill, well, poll = 50, 500, 200, 3 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		healthy := map[string]*fakeBMC{}
		for i := range well {
			healthy[fmt.Sprintf("well-%d", i)] = &fakeBMC{t: t}
		}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if f := healthy[target.Address]; f != nil {
				return f.dial(ctx, target)
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{IdleTimeout: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		queue := make(chan job, ill+well)
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
						j.again(ctx, queue, err, poll)
					}
				}
			})
		}
		for i := range ill + well { // mixed, each at its time within a poll
			name := fmt.Sprintf("ill-%d", i)
			if i%7 < 2 {
				name = fmt.Sprintf("well-%d", i/7*2+i%7)
			}
			j := job{address: name}
			j.after(ctx, queue, poll*time.Duration(i)/(ill+well))
		}
		wg.Wait()
		t.Logf("%d calls of %d BMCs that are well; the longest wait for a worker %s, after 10 minutes %s", served, well, longest, longestLater)
		if want := well * int(time.Hour/poll) * 9 / 10; served < want {
			t.Errorf("%d calls, want %d at least", served, want)
		}
		if longest > 15*time.Second || longestLater > time.Second {
			t.Errorf("a host that is well waited %s for a worker, and %s after 10 minutes", longest, longestLater)
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

func (j job) again(ctx context.Context, queue chan<- job, err error, poll time.Duration) {
	if err == nil {
		j.delay = 0
		j.after(ctx, queue, poll)
		return
	}
	j.delay = min(max(2*j.delay, 5*time.Second), 5*time.Minute)
	j.after(ctx, queue, max(j.delay, bmc.RetryAfter(err)))
}

func (j job) after(ctx context.Context, queue chan<- job, wait time.Duration) {
	time.AfterFunc(wait, func() {
		j.due = time.Now()
		select {
		case queue <- j:
		case <-ctx.Done():
		}
	})
}

// TestFailingBMCsTakeTurns: of those that failed the last time a few at most are asked
// at once; the others are left alone for a little while, and nothing is sent.
func TestFailingBMCsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if asked.Add(1) <= 3 {
				return nil, bmc.ErrTimeout
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{Patience: bmc.PatienceOptions{Slow: 2}})
		for _, name := range []string{"a", "b", "c"} {
			_ = pool.Do(t.Context(), target(name), readState)
		}
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			wg.Go(func() { _ = pool.Do(t.Context(), target(name), readState) })
		}
		synctest.Wait()
		err := pool.Do(t.Context(), target("c"), readState)
		var rest *bmc.RestError
		if !errors.As(err, &rest) || rest.Failures != 1 || !errors.Is(err, bmc.ErrTimeout) || rest.RetryAfter <= 0 || rest.RetryAfter > time.Minute || asked.Load() != 5 {
			t.Errorf("the third: %v, %d dials; want it left alone", err, asked.Load())
		}
		if c := pool.Contact("c"); c.Failures != 1 {
			t.Errorf("contact %+v", c)
		}
		wg.Wait()
		_ = pool.Do(t.Context(), target("c"), readState)
		if n := asked.Load(); n != 6 {
			t.Errorf("%d dials, want the third asked when there is a place", n)
		}
		must(t, pool.Close(t.Context()))
	})
}

// TestPatience: a silent BMC has the call's whole time while there is a place for it;
// one that gives signs of life needs no place.
func TestPatience(t *testing.T) {
	type call struct {
		name string
		// signs of life, then silence until the end.
		signs int
		fail  bool
		want  time.Duration
	}
	for _, tc := range []struct {
		name  string
		slow  int
		calls []call // each in its own time, a second after the one before
	}{
		{"alone", 2, []call{{"a", 0, false, 30 * time.Second}}},
		{"a place each", 2, []call{{"a", 0, false, 30 * time.Second}, {"b", 0, false, 30 * time.Second}}},
		{"no place for the third", 2, []call{{"a", 0, false, 30 * time.Second}, {"b", 0, false, 30 * time.Second}, {"c", 0, false, 5 * time.Second}}},
		{"signs of life need none", 1, []call{{"a", 0, false, 30 * time.Second}, {"b", 4, false, (4*4 + 5) * time.Second}}},
		{"half for those that failed", 2, []call{{"a", 0, true, 30 * time.Second}, {"b", 0, true, 5 * time.Second}, {"c", 0, false, 30 * time.Second}}},
		{"without limit", -1, []call{{"a", 0, false, 30 * time.Second}, {"b", 0, false, 30 * time.Second}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signs := map[string]int{}
				failing := map[string]bool{}
				for _, c := range tc.calls {
					signs[c.name], failing[c.name] = c.signs, c.fail
				}
				var mu sync.Mutex
				pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
					mu.Lock()
					fail := failing[target.Address]
					failing[target.Address] = false
					mu.Unlock()
					if fail {
						return nil, bmc.ErrUnreachable
					}
					for range signs[target.Address] {
						time.Sleep(4 * time.Second)
						bmc.Heard(ctx)
					}
					return hanging(ctx, target)
				}, bmc.PoolOptions{Patience: bmc.PatienceOptions{Slow: tc.slow}, Rest: bmc.RestOptions{After: -1}})
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
				must(t, pool.Close(t.Context()))
			})
		})
	}
}

// TestPatienceLeavesWritesAlone: what became of a write that is cut off would be unknown
// (I17).
func TestPatienceLeavesWritesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if target.Address == "a" {
				return f.dial(ctx, target)
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{Patience: bmc.PatienceOptions{Slow: 1}})
		must(t, pool.Do(t.Context(), target("a"), readState))
		f.block = make(chan struct{})
		go func() { _ = pool.Do(t.Context(), target("other"), readState) }()
		start := time.Now()
		err := pool.Do(t.Context(), target("a"), setPower)
		if took := time.Since(start); took != 30*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write ended after %s: %v", took, err)
		}
		close(f.block)
		must(t, pool.Close(t.Context()))
	})
}

// TestPatienceLeavesLoginsAlone: a BMC that is sent credentials opens the session also
// when nobody waits for the answer any more; and then nobody can end it.
func TestPatienceLeavesLoginsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answersAfter := map[string]time.Duration{"answers": 8 * time.Second, "never": time.Hour}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if takes, ok := answersAfter[target.Address]; ok {
				bmc.Committed(ctx)
				select {
				case <-time.After(takes):
					bmc.Heard(ctx)
				case <-ctx.Done():
				}
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{Patience: bmc.PatienceOptions{Slow: 1}, Rest: bmc.RestOptions{After: -1}})
		takes := func(name string, want time.Duration) {
			t.Helper()
			start := time.Now()
			err := pool.Do(t.Context(), target(name), readState)
			if took := time.Since(start); took != want || !errors.Is(err, bmc.ErrTimeout) {
				t.Errorf("%s took %s, %v; want %s and ErrTimeout", name, took, err, want)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { takes("has the place", 30*time.Second) })
		time.Sleep(time.Second)
		wg.Go(func() { takes("answers", 13*time.Second) }) // and is then like any other
		wg.Go(func() { takes("never", 30*time.Second) })
		wg.Go(func() { takes("no login", 5*time.Second) })
		wg.Wait()
		wg.Go(func() { takes("never", 30*time.Second) })
		time.Sleep(6 * time.Second)
		takes("beside one above the limit", 5*time.Second) // a login that is slow takes a place
		wg.Wait()
		takes("all places are free", 30*time.Second)
		must(t, pool.Close(t.Context()))
		bmc.Committed(t.Context()) // outside a pool
	})
}

// TestPatienceInTheQueue: who waits long for a BMC that another call of ours keeps is
// told that it is busy, where there is no place for more who wait.
func TestPatienceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, block: make(chan struct{})}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{Patience: bmc.PatienceOptions{Slow: 1}})
		var wg sync.WaitGroup
		wg.Go(func() { _ = pool.Do(t.Context(), target("a"), setPower) })
		synctest.Wait()
		wg.Go(func() { _ = pool.Do(t.Context(), target("a"), readState) }) // has the place
		time.Sleep(time.Second)
		err := pool.Do(t.Context(), target("a"), readState)
		if !errors.Is(err, bmc.ErrBusy) || !strings.Contains(err.Error(), "another call") {
			t.Errorf("error %v, want ErrBusy", err)
		}
		close(f.block)
		wg.Wait()
		must(t, pool.Close(t.Context()))
	})
}

// TestUnhurriedTakeNoPlaces: who keeps no worker takes nothing from those who do, neither
// in the queue for a BMC nor at one that is silent, and waits its time.
func TestUnhurriedTakeNoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, block: make(chan struct{})}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if target.Address == "works" {
				return f.dial(ctx, target)
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{CallTimeout: time.Hour, Patience: bmc.PatienceOptions{Slow: 1}, Rest: bmc.RestOptions{After: -1}})
		var wg sync.WaitGroup
		wg.Go(func() { _ = pool.Do(t.Context(), target("works"), setPower) }) // as long as a push of firmware
		synctest.Wait()
		unhurried := bmc.Unhurried(t.Context())
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
		err := pool.Do(ctx, target("ill"), readState)
		if took := time.Since(start); took != 25*time.Second {
			t.Errorf("the only place was taken: a call had %s: %v", took, err)
		}
		close(f.block)
		wg.Wait()
		must(t, pool.Close(t.Context()))
	})
}

// TestUnhurriedLeaveFailingBMCsToOthers: of the BMCs that failed they call a few, and never
// those that a worker would have called.
func TestUnhurriedLeaveFailingBMCsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if asked.Add(1) <= 10 {
				return nil, bmc.ErrTimeout
			}
			return hanging(ctx, target)
		}, bmc.PoolOptions{Patience: bmc.PatienceOptions{Slow: 4}})
		for i := range 10 {
			_ = pool.Do(t.Context(), target(fmt.Sprint(i)), readState)
		}
		var wg sync.WaitGroup
		for i := range 10 {
			ctx := t.Context()
			if i < 5 {
				ctx = bmc.Unhurried(ctx)
			}
			wg.Go(func() { _ = pool.Do(ctx, target(fmt.Sprint(i)), readState) })
			synctest.Wait()
		}
		if n := asked.Load() - 10; n != 1+4 {
			t.Errorf("%d are asked, want one of the unhurried and four of the others", n)
		}
		wg.Wait()
		must(t, pool.Close(t.Context()))
	})
}

// TestCallsEndWhatHangsOnThem: what a driver leaves behind ends with its call.
func TestCallsEndWhatHangsOnThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		f := &fakeBMC{t: t}
		pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			context.AfterFunc(ctx, func() { ended.Store(true) }) // and forgotten
			return f.dial(ctx, target)
		}, bmc.PoolOptions{IdleTimeout: time.Hour})
		must(t, pool.Do(t.Context(), target("a"), readState))
		synctest.Wait()
		if !ended.Load() {
			t.Error("the context of a call outlives it")
		}
		must(t, pool.Close(t.Context()))
	})
}
