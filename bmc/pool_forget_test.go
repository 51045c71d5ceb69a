// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	node1 = "redfish://a/redfish/v1/Systems/1"
	node2 = "redfish://a/redfish/v1/Systems/2"
)

// TestForgetKeepsTheBMCOfOtherSystems shows that a BMC's failures are kept until its last
// system is forgotten, and that refused logins are kept beyond that.
func TestForgetKeepsTheBMCOfOtherSystems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lockable{fakeBMC: fakeBMC{t: t}, right: "another", most: 1000}
		pool := newPool(t, l.dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
		for range bmc.DefaultLockAfter {
			for _, address := range []string{node1, node2} {
				_ = pool.Do(t.Context(), target(address), readState)
			}
		}
		wantNoLogin := func() {
			t.Helper()
			before := len(l.logins)
			err := pool.Do(t.Context(), target(node2), readState)
			if !errors.Is(err, bmc.ErrUnauthorized) || len(l.logins) != before {
				t.Errorf("%d logins: %v", len(l.logins)-before, err)
			}
		}
		wantNoLogin()
		pool.Forget(node1)
		synctest.Wait()
		if c := pool.CallStatus(node2); c.Failures == 0 {
			t.Error("the other node's failures are forgotten")
		}
		wantNoLogin()
		pool.Forget(node2)
		synctest.Wait()
		if c := pool.CallStatus(node2); c.Failures != 0 {
			t.Errorf("%d failures of a forgotten BMC", c.Failures)
		}
		wantNoLogin() // the BMC still counts the refusals
	})
}

// TestForgetClosesOrphans shows that an orphan session is closed when its host is deleted,
// or else with the next session or by Pool.Close.
func TestForgetClosesOrphans(t *testing.T) {
	for _, tc := range []struct {
		name string
		// idle is IdleTimeout; refusals is the number of failing closes.
		idle     time.Duration
		refusals int
		then     func(t *testing.T, pool *bmc.Pool)
		want     int
	}{
		{"at once", -1, 1, func(*testing.T, *bmc.Pool) {}, 2},
		{"while its session is open", time.Hour, 1, func(*testing.T, *bmc.Pool) {}, 2},
		{"by Close", -1, 2, func(*testing.T, *bmc.Pool) {}, 3},
		{"with the next session", -1, 2, func(t *testing.T, pool *bmc.Pool) {
			must(t, pool.Do(t.Context(), target("a"), readState))
		}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeBMC{t: t}
				f.callErr = func(c *fakeConn, name string) error {
					if name == "close" && c.id == 1 && tc.refusals > 0 {
						tc.refusals--
						return bmc.ErrTimeout
					}
					return nil
				}
				pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: tc.idle})
				must(t, pool.Do(t.Context(), target("a"), readState))
				synctest.Wait()
				pool.Forget("a")
				time.Sleep(time.Minute)
				tc.then(t, pool)
				must(t, pool.Close(t.Context()))
				if n := f.count("close 1"); n != tc.want {
					t.Errorf("closed %d times, want %d", n, tc.want)
				}
			})
		})
	}
}

// TestOpenClosesTwoOrphans shows that a call waits for the close of at most two sessions.
func TestOpenClosesTwoOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, callErr: func(_ *fakeConn, name string) error {
			if name == "close" {
				return bmc.ErrUnauthorized
			}
			return nil
		}}
		pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: -1})
		for range 4 {
			must(t, pool.Do(t.Context(), target("a"), readState))
		}
		f.mu.Lock()
		f.callErr = func(_ *fakeConn, name string) error {
			if name == "close" {
				time.Sleep(9 * time.Second)
			}
			return nil
		}
		f.mu.Unlock()
		start := time.Now()
		must(t, pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) error {
			if waited := time.Since(start); waited != 18*time.Second {
				t.Errorf("waited %s for other sessions, want two closes", waited)
			}
			return readState(ctx, c)
		}))
	})
}

// TestPoolCloseIsBounded shows that orphan sessions of a hanging BMC do not block the end of
// the process.
func TestPoolCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		f := &fakeBMC{t: t}
		f.callErr = func(_ *fakeConn, name string) error {
			if name == "close" && hangs {
				time.Sleep(5 * time.Second) // a driver's own limit for a close without a context
			}
			if name == "close" {
				return bmc.ErrTimeout
			}
			return nil
		}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
		for range 4 {
			must(t, pool.Do(t.Context(), target("a"), readState))
		}
		f.mu.Lock()
		hangs = true
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_ = pool.Close(ctx)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
