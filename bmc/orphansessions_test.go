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

// refusing returns err for the close of the listed sessions.
func refusing(err error, ids ...int) func(*fakeConn, string) error {
	return func(c *fakeConn, name string) error {
		if name == "close" && slices.Contains(ids, c.id) {
			return fmt.Errorf("end: %w", err)
		}
		return nil
	}
}

// TestOrphanIsClosedWithTheNextSession shows that a session that could not be closed is
// closed once when the BMC opens the next one.
func TestOrphanIsClosedWithTheNextSession(t *testing.T) {
	for name, err := range map[string]error{"401": bmc.ErrUnauthorized, "silence": bmc.ErrTimeout, "no connection": bmc.ErrUnreachable} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBMC{t: t}
			pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: -1})
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
		})
	}
}

// TestOrphansAreBounded shows that a session is closed at most four times, and that at most
// four sessions are kept.
func TestOrphansAreBounded(t *testing.T) {
	f := &fakeBMC{t: t, callErr: refusing(bmc.ErrUnauthorized, 1)}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
	for range 8 {
		must(t, pool.Do(t.Context(), target("a"), readState))
	}
	if n := f.count("close 1"); n != 4 {
		t.Errorf("the first session was closed %d times, want 4", n)
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
	// A silent BMC gets one attempt per session.
	if n := f.count("close "); n > 2*20 {
		t.Errorf("%d attempts to close 20 sessions", n)
	}
	_ = pool.Close(t.Context())
}

// TestPoolCloseClosesOrphans covers a BMC without an open session.
func TestPoolCloseClosesOrphans(t *testing.T) {
	f := &fakeBMC{t: t, callErr: refusing(bmc.ErrUnauthorized, 1)}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: time.Nanosecond})
	must(t, pool.Do(t.Context(), target("a"), readState))
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the end of the session", eventually.Holds(func() bool { return f.count("close 1") != 0 }))
	must(t, pool.Close(t.Context()))
	if n := f.count("close 1"); n != 2 {
		t.Errorf("closed %d times, want 2", n)
	}
}

// lingering is a connection whose BMC answers the close of its session with 401 a number of times.
type lingering struct {
	*fakeConn
	times int
}

func (l *lingering) Close(ctx context.Context) error {
	l.times--
	return l.fakeConn.Close(ctx)
}

func (l *lingering) MayBeOpen() bool { return l.times >= 0 }

// TestOrphanAfter401 shows that a session is closed again if the BMC answered 401 without
// an error of Close, and that a session left in the end is no error.
func TestOrphanAfter401(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		conn, err := f.dial(ctx, target)
		return &lingering{fakeConn: conn.(*fakeConn), times: 1}, err
	}, bmc.PoolOptions{IdleTimeout: -1})
	for range 3 {
		must(t, pool.Do(t.Context(), target("a"), readState))
	}
	if first, second := f.count("close 1"), f.count("close 2"); first != 2 || second != 2 {
		t.Errorf("the first session was closed %d times, the second %d times, want twice each", first, second)
	}
}

// count returns the number of calls that equal prefix, or that begin with it if it ends in a space.
func (f *fakeBMC) count(prefix string) (n int) {
	calls, _ := f.snapshot()
	for _, call := range calls {
		if call == prefix || strings.HasSuffix(prefix, " ") && strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}
