// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// TestPoolPausesAFailingBMC shows that nothing is sent for a while after three failures,
// and that corrected credentials are sent at once.
func TestPoolPausesAFailingBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		var dialErr error = bmc.ErrUnauthorized
		pool := bmc.NewPool(func(context.Context, bmc.Target) (bmc.Conn, error) {
			dials++
			return nil, dialErr
		}, bmc.PoolOptions{Pause: bmc.PauseOptions{Base: time.Minute, Max: time.Hour, LockAfter: -1}})
		for range 3 {
			if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnauthorized) {
				t.Fatal(err)
			}
		}
		err := pool.Do(t.Context(), target("a"), readState)
		var rest *bmc.PausedError
		if !errors.As(err, &rest) || !errors.Is(err, bmc.ErrUnauthorized) || dials != 3 {
			t.Fatalf("error %v after %d dials, want a RestError with the cause after 3", err, dials)
		}
		if d := bmc.RetryAfter(err); d < 30*time.Second || d > time.Minute {
			t.Errorf("paused for %s, want 30 s to a minute", d)
		}
		if c := pool.CallStatus("a"); c.Failures != 3 || c.Last != bmc.OutcomeUnauthorized || !c.IsPaused(time.Now()) {
			t.Errorf("contact %+v", c)
		}
		if c := pool.CallStatus("b"); c.Failures != 0 {
			t.Errorf("another BMC's contact %+v", c)
		}
		other := target("a")
		other.Password = "corrected"
		_ = pool.Do(t.Context(), other, readState)
		if dials != 4 || pool.CallStatus("a").Failures != 1 {
			t.Errorf("%d dials, contact %+v; want corrected credentials tried at once", dials, pool.CallStatus("a"))
		}
		pool.Forget("a")
		if c := pool.CallStatus("a"); c.Failures != 0 {
			t.Errorf("contact of a forgotten BMC: %+v", c)
		}
		_ = pool.Close(t.Context())
	})
}

// TestPoolRetriesAfterThePause shows that one call decides after a pause.
func TestPoolRetriesAfterThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, callErr: func(*fakeConn, string) error { return bmc.ErrTimeout }}
		pool := newPool(t, f.dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: 1, Base: time.Minute}})
		_ = pool.Do(t.Context(), target("a"), readState)
		var rest *bmc.PausedError
		if err := pool.Do(t.Context(), target("a"), readState); !errors.As(err, &rest) {
			t.Fatal(err)
		}
		time.Sleep(rest.RetryAfter)
		f.callErr = nil
		must(t, pool.Do(t.Context(), target("a"), readState))
		if c := pool.CallStatus("a"); c.Failures != 0 {
			t.Errorf("contact %+v", c)
		}
	})
}

// pacedConn makes n requests per call.
type pacedConn struct {
	fakeConn
	n int
}

func (c *pacedConn) PowerState(ctx context.Context) (bmc.PowerState, error) {
	for range c.n {
		if err := bmc.WaitForRateLimit(ctx); err != nil {
			return bmc.PowerUnknown, fmt.Errorf("x: %w: %w", bmc.ErrTimeout, err)
		}
	}
	return bmc.PowerOn, nil
}

func (c *pacedConn) Close(context.Context) error { return nil }

func TestPoolLimitsTheRequestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &pacedConn{n: 25}
		pool := newPool(t, func(context.Context, bmc.Target) (bmc.Conn, error) { return conn, nil },
			bmc.PoolOptions{IdleTimeout: -1, CallTimeout: 10 * time.Second, RateLimit: bmc.RateLimitOptions{Rate: 5, Burst: 10}})
		start := time.Now()
		must(t, pool.Do(t.Context(), target("a"), readState))
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("25 requests took %s, want 3 s: 10 at once, 15 at 5 per second", took)
		}
		must(t, pool.Do(t.Context(), target("b"), readState)) // has its own limiter
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("another BMC waited: %s", took)
		}
		conn.n = 100 // the end of a session does not refill the burst
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrTimeout) {
			t.Errorf("error %v, want the call's deadline", err)
		}
	})
	if err := bmc.WaitForRateLimit(t.Context()); err != nil {
		t.Errorf("outside a pool: %v", err)
	}
}

// pushConn reads n bytes of an image and then refuses the call.
type pushConn struct {
	fakeConn
	reads    int64
	deadline time.Duration
}

func (c *pushConn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	at, _ := ctx.Deadline()
	c.deadline = time.Until(at)
	if update.Image != nil {
		_, _ = io.CopyN(io.Discard, update.Image, c.reads)
	}
	return bmc.Task{}, fmt.Errorf("x: %w", bmc.ErrUnauthorized)
}

func (c *pushConn) PowerState(context.Context) (bmc.PowerState, error) { return bmc.PowerOn, nil }
func (c *pushConn) Close(context.Context) error                        { return nil }

// TestPoolTransfers shows that a partly read image is not sent again.
func TestPoolTransfers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		reads    int64
		update   func() bmc.Update
		dials    int
		deadline time.Duration
	}{
		{"refused before a byte was read", 0, func() bmc.Update { return bmc.Update{Image: strings.NewReader("abc")} }, 2, time.Hour},
		{"refused after", 1, func() bmc.Update { return bmc.Update{Image: strings.NewReader("abc")} }, 1, time.Hour},
		{"by URL", 0, func() bmc.Update { return bmc.Update{URL: "http://192.0.2.1/x"} }, 2, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				conn := &pushConn{reads: tc.reads}
				pool := newPool(t, func(context.Context, bmc.Target) (bmc.Conn, error) { dials++; return conn, nil },
					bmc.PoolOptions{CallTimeout: time.Minute, TransferTimeout: time.Hour})
				must(t, pool.Do(t.Context(), target("a"), readState))
				err := pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) error {
					_, err := c.UpdateFirmware(ctx, tc.update())
					return err
				})
				if !errors.Is(err, bmc.ErrUnauthorized) || dials != tc.dials || conn.deadline != tc.deadline {
					t.Errorf("error %v, %d dials, deadline %s; want %d and %s", err, dials, conn.deadline, tc.dials, tc.deadline)
				}
			})
		})
	}
}
