// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/test/eventually"
)

// refusing answers the ends of the sessions that are listed with err.
func refusing(err error, ids ...int) func(*fakeConn, string) error {
	return func(c *fakeConn, name string) error {
		if name == "close" && slices.Contains(ids, c.id) {
			return fmt.Errorf("end: %w", err)
		}
		return nil
	}
}

// TestPoolEndsWhatWasLeft: a session that could not be ended is ended with the next one
// that the BMC opens, a few times at most.
func TestPoolEndsWhatWasLeft(t *testing.T) {
	for name, err := range map[string]error{"401": bmc.ErrUnauthorized, "silence": bmc.ErrTimeout, "no connection": bmc.ErrUnreachable} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBMC{t: t}
			pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
			f.callErr = refusing(err, 1)
			must(t, pool.Do(t.Context(), target("a"), readState))
			wantCalls(t, f, 0, "dial 1", "state 1", "close 1")
			f.callErr = nil
			must(t, pool.Do(t.Context(), target("a"), readState))
			wantCalls(t, f, 0, "dial 1", "state 1", "close 1", "dial 2", "close 1", "state 2", "close 2")
			must(t, pool.Do(t.Context(), target("a"), readState)) // once is enough
			if calls, _ := f.snapshot(); strings.Count(strings.Join(calls, ","), "close 1") != 2 {
				t.Errorf("calls %v", calls)
			}
			must(t, pool.Close(t.Context()))
		})
	}
}

// TestPoolGivesUpWhatWasLeft: what the BMC never ends is tried three times more, and of
// many sessions four are kept.
func TestPoolGivesUpWhatWasLeft(t *testing.T) {
	f := &fakeBMC{t: t, callErr: refusing(bmc.ErrUnauthorized, 1)}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
	for range 8 {
		must(t, pool.Do(t.Context(), target("a"), readState))
	}
	if n := f.count("close 1"); n != 4 {
		t.Errorf("the end of the first session was tried %d times, want once and three times more", n)
	}
	must(t, pool.Close(t.Context()))

	f = &fakeBMC{t: t, callErr: func(_ *fakeConn, name string) error {
		if name == "close" {
			return bmc.ErrTimeout
		}
		return nil
	}}
	pool = bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
	for range 20 {
		must(t, pool.Do(t.Context(), target("a"), readState))
	}
	// One that does not answer is asked once with each session.
	if n := f.count("close "); n > 2*20 {
		t.Errorf("%d ends of 20 sessions were tried", n)
	}
	_ = pool.Close(t.Context())
}

// TestPoolCloseEndsWhatWasLeft: also at a BMC that has no session any more.
func TestPoolCloseEndsWhatWasLeft(t *testing.T) {
	f := &fakeBMC{t: t, callErr: refusing(bmc.ErrUnauthorized, 1)}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: time.Nanosecond})
	must(t, pool.Do(t.Context(), target("a"), readState))
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the end of the session", eventually.Holds(func() bool { return f.count("close 1") != 0 }))
	must(t, pool.Close(t.Context()))
	if n := f.count("close 1"); n != 2 {
		t.Errorf("%d ends, want the first and one more", n)
	}
}

// lingering is a connection whose BMC answers the end of its session with 401 so often.
type lingering struct {
	*fakeConn
	times int
}

func (l *lingering) Close(ctx context.Context) error {
	l.times--
	return l.fakeConn.Close(ctx)
}

func (l *lingering) Lingers() bool { return l.times >= 0 }

// TestPoolEndsWhatLingers: a session whose end found nothing wrong, but a BMC that says
// 401, is ended with the next one all the same; that it is left at last is no error.
func TestPoolEndsWhatLingers(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		conn, err := f.dial(ctx, target)
		return &lingering{fakeConn: conn.(*fakeConn), times: 1}, err
	}, bmc.PoolOptions{IdleTimeout: -1})
	for range 3 {
		must(t, pool.Do(t.Context(), target("a"), readState))
	}
	if first, second := f.count("close 1"), f.count("close 2"); first != 2 || second != 2 {
		t.Errorf("the first session was ended %d times, the second %d times, want twice each", first, second)
	}
	must(t, pool.Close(t.Context()))
}

// count is how many calls begin with a text.
func (f *fakeBMC) count(prefix string) (n int) {
	calls, _ := f.snapshot()
	for _, call := range calls {
		if call == prefix || strings.HasSuffix(prefix, " ") && strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}
