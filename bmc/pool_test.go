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

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// fakeBMC records its calls and fails the test when two calls overlap.
type fakeBMC struct {
	t *testing.T

	mu      sync.Mutex
	open    map[*fakeConn]bool
	opened  int
	peak    int
	calls   []string
	dialErr error
	// callErr returns the error of a call; nil: no call fails.
	callErr func(c *fakeConn, call string) error
	// block, if not nil, blocks calls until it is closed or their ctx ends.
	block chan struct{}

	inFlight atomic.Int32
}

type fakeConn struct {
	bmc.Unsupported
	bmc    *fakeBMC
	id     int
	target bmc.Target
}

func (f *fakeBMC) dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	defer f.enter("dial")()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dialErr != nil {
		return nil, f.dialErr
	}
	f.opened++
	c := &fakeConn{bmc: f, id: f.opened, target: target}
	if f.open == nil {
		f.open = map[*fakeConn]bool{}
	}
	f.open[c] = true
	f.peak = max(f.peak, len(f.open))
	f.calls = append(f.calls, fmt.Sprintf("dial %d", c.id))
	return c, ctx.Err()
}

func (f *fakeBMC) enter(what string) func() {
	if f.inFlight.Add(1) > 1 {
		f.t.Errorf("%s while another call is in flight", what)
	}
	return func() { f.inFlight.Add(-1) }
}

func (c *fakeConn) call(ctx context.Context, name string) error {
	f := c.bmc
	defer f.enter(name)()
	if _, ok := ctx.Deadline(); !ok {
		f.t.Errorf("%s has no deadline", name)
	}
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprintf("%s %d", name, c.id))
	block, callErr := f.block, f.callErr
	f.mu.Unlock()
	if block != nil && name != "close" {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if callErr != nil {
		return callErr(c, name)
	}
	return nil
}

func (c *fakeConn) PowerState(ctx context.Context) (bmc.PowerState, error) {
	return bmc.PowerOn, c.call(ctx, "state")
}

func (c *fakeConn) SetPower(ctx context.Context, _ bmc.PowerAction) error {
	return c.call(ctx, "power")
}

func (c *fakeConn) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	return bmc.BootOverride{Target: bmc.BootPXE}, c.call(ctx, "boot")
}

func (c *fakeConn) SetBootOverride(ctx context.Context, _ bmc.BootOverride) error {
	return c.call(ctx, "setboot")
}

func (c *fakeConn) Identity(ctx context.Context) (bmc.Identity, error) {
	return bmc.Identity{Serial: "S"}, c.call(ctx, "identity")
}

func (c *fakeConn) Inventory(ctx context.Context) (bmc.Inventory, error) {
	return bmc.Inventory{Cores: 4}, c.call(ctx, "inventory")
}

func (c *fakeConn) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		c.bmc.t.Error("Close got a context that has ended")
	}
	err := c.call(ctx, "close")
	c.bmc.mu.Lock()
	defer c.bmc.mu.Unlock()
	delete(c.bmc.open, c)
	return err
}

func (f *fakeBMC) snapshot() (calls []string, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...), len(f.open)
}

func wantCalls(t *testing.T, f *fakeBMC, open int, want ...string) {
	t.Helper()
	calls, n := f.snapshot()
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if n != open {
		t.Errorf("%d sessions open, want %d", n, open)
	}
}

func readState(ctx context.Context, c bmc.Conn) error { _, err := c.PowerState(ctx); return err }

func setPower(ctx context.Context, c bmc.Conn) error { return c.SetPower(ctx, bmc.ActionOn) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPool returns a pool that is closed when the test ends.
func newPool(t *testing.T, dial bmc.Dialer, opts bmc.PoolOptions) *bmc.Pool {
	pool := bmc.NewPool(dial, opts)
	t.Cleanup(func() { must(t, pool.Close(context.Background())) })
	return pool
}

func target(address string) bmc.Target {
	return bmc.Target{Address: address, Username: "admin", Password: "secret"}
}

func TestPoolIsExclusivePerBMC(t *testing.T) {
	const workers, calls = 16, 20
	bmcs := map[string]*fakeBMC{"a": {t: t}, "b": {t: t}}
	pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		return bmcs[target.Address].dial(ctx, target)
	}, bmc.PoolOptions{})
	var wg sync.WaitGroup
	for i := range workers {
		address := []string{"a", "b"}[i%2]
		wg.Go(func() {
			for range calls {
				err := pool.Do(t.Context(), target(address), func(ctx context.Context, c bmc.Conn) error {
					return errors.Join(readState(ctx, c), setPower(ctx, c))
				})
				if err != nil {
					t.Error(err)
				}
				if i == 0 {
					pool.Forget(address) // must not open a second session
				}
			}
		})
	}
	wg.Wait()
	must(t, pool.Close(t.Context()))
	for address, f := range bmcs {
		if _, open := f.snapshot(); open != 0 || f.peak != 1 {
			t.Errorf("%s: %d sessions left, at most %d at once, want 0 and 1", address, open, f.peak)
		}
	}
}

func TestPoolReusesTheSession(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{})
	must(t, pool.Do(t.Context(), target("a"), readState))
	must(t, pool.Do(t.Context(), target("a"), setPower))
	wantCalls(t, f, 1, "dial 1", "state 1", "power 1")
	must(t, pool.Close(t.Context()))
	wantCalls(t, f, 0, "dial 1", "state 1", "power 1", "close 1")
	if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrPoolClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	must(t, pool.Close(t.Context())) // a second Close does nothing
}

func TestPoolRedials(t *testing.T) {
	for name, change := range map[string]func(*bmc.Target){
		"password":  func(t *bmc.Target) { t.Password = "other" },
		"username":  func(t *bmc.Target) { t.Username = "other" },
		"authority": func(t *bmc.Target) { t.CABundle = []byte("pem") },
		"pin":       func(t *bmc.Target) { t.Fingerprint = "sha256:aa" },
		"opt-out":   func(t *bmc.Target) { t.InsecureSkipVerify = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBMC{t: t}
			pool := newPool(t, f.dial, bmc.PoolOptions{})
			tgt := target("a")
			must(t, pool.Do(t.Context(), tgt, readState))
			change(&tgt)
			must(t, pool.Do(t.Context(), tgt, readState))
			wantCalls(t, f, 1, "dial 1", "state 1", "close 1", "dial 2", "state 2")
		})
	}
}

func TestPoolReplacesAForgottenSession(t *testing.T) {
	refuse := func(ids ...int) func(*fakeConn, string) error {
		return func(c *fakeConn, name string) error {
			for _, id := range ids {
				if c.id == id && name != "close" {
					return fmt.Errorf("call: %w", bmc.ErrUnauthorized)
				}
			}
			return nil
		}
	}
	t.Run("stale", func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		must(t, pool.Do(t.Context(), target("a"), readState))
		f.callErr = refuse(1)
		must(t, pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) error {
			return errors.Join(setPower(ctx, c), readState(ctx, c))
		}))
		wantCalls(t, f, 1, "dial 1", "state 1", "power 1", "close 1", "dial 2", "power 2", "state 2")
	})
	t.Run("new session", func(t *testing.T) {
		f := &fakeBMC{t: t, callErr: refuse(1, 2)}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnauthorized) {
			t.Errorf("error %v", err)
		}
		wantCalls(t, f, 0, "dial 1", "state 1", "close 1")
	})
	t.Run("other error", func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		must(t, pool.Do(t.Context(), target("a"), readState))
		f.callErr = func(_ *fakeConn, name string) error {
			if name == "power" {
				return bmc.ErrUnknownOutcome
			}
			return nil
		}
		if err := pool.Do(t.Context(), target("a"), setPower); !errors.Is(err, bmc.ErrUnknownOutcome) {
			t.Errorf("error %v", err)
		}
		wantCalls(t, f, 1, "dial 1", "state 1", "power 1")
	})
}

func TestPoolDialError(t *testing.T) {
	f := &fakeBMC{t: t, dialErr: bmc.ErrUnreachable}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{})
	if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	f.dialErr = nil
	must(t, pool.Do(t.Context(), target("a"), readState))
	must(t, pool.Close(t.Context()))
	wantCalls(t, f, 0, "dial 1", "state 1", "close 1")
}

func TestPoolIdleAndDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: time.Minute, CallTimeout: 30 * time.Second})
		must(t, pool.Do(t.Context(), target("a"), readState))
		time.Sleep(59 * time.Second)
		must(t, pool.Do(t.Context(), target("a"), readState)) // restarts the idle timer
		time.Sleep(59 * time.Second)
		synctest.Wait()
		wantCalls(t, f, 1, "dial 1", "state 1", "state 1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCalls(t, f, 0, "dial 1", "state 1", "state 1", "close 1")

		// A hanging BMC blocks the call until its deadline, and a waiting caller until its own.
		f.mu.Lock()
		f.block = make(chan struct{})
		f.mu.Unlock()
		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- pool.Do(t.Context(), target("a"), readState) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := pool.Do(ctx, target("a"), readState); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting: %v", err)
		}
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited %s for the lock, want 5 s", waited)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging: %v", err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("the call ended after %s, want 30 s", took)
		}
	})
}

// TestPoolKeepsTheSessionOfAFailingBMC shows that the idle timer does not close a session
// while its BMC fails, because the BMC would not receive the close.
func TestPoolKeepsTheSessionOfAFailingBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: time.Minute, CallTimeout: time.Second})
		must(t, pool.Do(t.Context(), target("a"), readState))
		f.mu.Lock()
		f.block = make(chan struct{})
		f.mu.Unlock()
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging: %v", err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		wantCalls(t, f, 1, "dial 1", "state 1", "state 1")
		f.mu.Lock()
		f.block = nil
		f.mu.Unlock()
		must(t, pool.Do(t.Context(), target("a"), readState))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantCalls(t, f, 0, "dial 1", "state 1", "state 1", "state 1", "close 1")
	})
}

func TestPoolWithoutIdleTime(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: -1})
	must(t, pool.Do(t.Context(), target("a"), readState))
	wantCalls(t, f, 0, "dial 1", "state 1", "close 1")
}

func TestPoolForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		pool.Forget("a") // unknown: nothing
		must(t, pool.Do(t.Context(), target("a"), readState))
		pool.Forget("a")
		synctest.Wait()
		wantCalls(t, f, 0, "dial 1", "state 1", "close 1")
		must(t, pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) error {
			pool.Forget("a") // in use: ends afterwards
			return readState(ctx, c)
		}))
		synctest.Wait()
		wantCalls(t, f, 0, "dial 1", "state 1", "close 1", "dial 2", "state 2", "close 2")
	})
}

func TestPoolCloseClosesEverySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, block: make(chan struct{})}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{})
		done := make(chan error, 1)
		go func() { done <- pool.Do(t.Context(), target("a"), readState) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, pool.Close(ctx)) // cancels the call in flight and still logs out
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("call in flight: %v", err)
		}
		wantCalls(t, f, 0, "dial 1", "state 1", "close 1")
	})
	t.Run("reports sessions left open", func(t *testing.T) {
		f := &fakeBMC{t: t, callErr: func(*fakeConn, string) error { return nil }}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{})
		must(t, pool.Do(t.Context(), target("a"), readState))
		f.callErr = func(*fakeConn, string) error { return bmc.ErrUnreachable }
		if err := pool.Close(t.Context()); err == nil || err.Error() != "close BMC sessions: left open at a" {
			t.Errorf("error %v", err)
		}
	})
}

func TestLeaseEnds(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := newPool(t, f.dial, bmc.PoolOptions{})
	var kept bmc.Conn
	must(t, pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) error {
		kept = c
		must(t, c.Close(ctx))
		return readState(ctx, c) // opens another session
	}))
	if err := readState(t.Context(), kept); !errors.Is(err, bmc.ErrLeaseEnded) {
		t.Errorf("kept connection: %v", err)
	}
	wantCalls(t, f, 1, "dial 1", "close 1", "dial 2", "state 2")
}

func TestObserver(t *testing.T) {
	var got []string
	f := &fakeBMC{t: t, callErr: func(_ *fakeConn, name string) error {
		if name == "setboot" {
			return fmt.Errorf("x: %w", &bmc.BusyError{RetryAfter: time.Second})
		}
		return nil
	}}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{Observer: func(c bmc.Call) {
		got = append(got, fmt.Sprintf("%s %s %s", c.Address, c.Name, c.Outcome))
	}})
	_ = pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) error {
		_, err1 := c.Inventory(ctx)
		_, err2 := c.Identity(ctx)
		_, err3 := c.BootOverride(ctx)
		return errors.Join(err1, err2, err3, setPower(ctx, c), readState(ctx, c),
			c.SetBootOverride(ctx, bmc.BootOverride{}))
	})
	must(t, pool.Close(t.Context()))
	want := []string{
		"a Dial OK", "a Inventory OK", "a Identity OK", "a BootOverride OK", "a SetPower OK", "a PowerState OK",
		"a SetBootOverride Busy", "a Close OK",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestPasswordHides(t *testing.T) {
	tgt := target("a")
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(format, tgt.Password); got != "***" {
			t.Errorf("%s shows %q", format, got)
		}
	}
	if got := fmt.Sprintf("%+v", tgt); strings.Contains(got, "secret") {
		t.Errorf("target shows %s", got)
	}
}

// TestPoolCloseDuringRetirement shows that Close and the background close of an idle
// session, which need the same lock, do not deadlock.
func TestPoolCloseDuringRetirement(t *testing.T) {
	for range 500 {
		f := &fakeBMC{t: t}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: time.Nanosecond})
		must(t, pool.Do(t.Context(), target("a"), readState))
		pool.Forget("a")
		done := make(chan error, 1)
		go func() { done <- pool.Close(t.Context()) }()
		select {
		case err := <-done:
			must(t, err)
		case <-time.After(time.Minute):
			t.Fatal("Close deadlocks with the background close")
		}
		if _, open := f.snapshot(); open != 0 {
			t.Fatalf("%d sessions left open", open)
		}
	}
}
