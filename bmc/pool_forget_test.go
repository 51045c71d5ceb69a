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

// TestForgetLeavesTheOthers: what is known of the BMC of a chassis is not lost with one of
// its nodes, and what its account was refused is not lost with the last of them.
func TestForgetLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lockable{fakeBMC: fakeBMC{t: t}, right: "another", most: 1000}
		pool := bmc.NewPool(l.dial, bmc.PoolOptions{Rest: bmc.RestOptions{After: -1}})
		for range bmc.DefaultLockAfter {
			for _, address := range []string{node1, node2} {
				_ = pool.Do(t.Context(), target(address), readState)
			}
		}
		spared := func(want bool) {
			t.Helper()
			before := len(l.logins)
			err := pool.Do(t.Context(), target(node2), readState)
			if !errors.Is(err, bmc.ErrUnauthorized) || (len(l.logins) == before) != want {
				t.Errorf("the account is spared: %v, want %v: %v", !want, want, err)
			}
		}
		spared(true)
		pool.Forget(node1)
		synctest.Wait()
		if c := pool.Contact(node2); c.Failures == 0 {
			t.Error("the other node's failures are forgotten")
		}
		spared(true)
		pool.Forget(node2)
		synctest.Wait()
		if c := pool.Contact(node2); c.Failures != 0 {
			t.Errorf("%d failures of a BMC that nobody wants", c.Failures)
		}
		spared(true) // the BMC counts on, whoever is registered there
		must(t, pool.Close(t.Context()))
	})
}

// TestForgetEndsWhatWasLeft: a session that could not be ended yet is not lost with the
// host, whether the BMC is in use at that moment or not; what the BMC does not end then is
// ended with the next session, or by Close.
func TestForgetEndsWhatWasLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		// idle is how long a session is kept; refusals are the ends that fail.
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
					t.Errorf("the end of the session was tried %d times, want %d", n, tc.want)
				}
			})
		})
	}
}

// TestOpenEndsTwoAtMost: whoever needs the BMC does not wait for the end of all that was
// left there.
func TestOpenEndsTwoAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, callErr: func(_ *fakeConn, name string) error {
			if name == "close" {
				return bmc.ErrUnauthorized
			}
			return nil
		}}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
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
				t.Errorf("waited %s for the ends of other sessions, want two of them", waited)
			}
			return readState(ctx, c)
		}))
		must(t, pool.Close(t.Context()))
	})
}

// TestCloseOfThePoolKeepsItsTime: sessions that were left at a BMC that hangs do not hold
// up the end of the process.
func TestCloseOfThePoolKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ill := false
		f := &fakeBMC{t: t}
		f.callErr = func(_ *fakeConn, name string) error {
			if name == "close" && ill {
				time.Sleep(5 * time.Second) // the driver's own time for an end whose context has ended
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
		ill = true
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_ = pool.Close(ctx)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %s beyond its time", took)
		}
	})
}
