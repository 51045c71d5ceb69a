// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// switchingConn serves all systems by one session.
type switchingConn struct {
	*fakeConn
	refuses bool
}

// Switch implements bmc.Switcher.
func (c *switchingConn) Switch(address string) error {
	if c.refuses {
		return bmc.ErrAddress
	}
	c.target.Address = address
	return nil
}

// TestPoolSystemsShareTheirBMC: the systems behind a BMC never cost it two sessions or
// two calls at once, whatever the driver can.
func TestPoolSystemsShareTheirBMC(t *testing.T) {
	for name, tc := range map[string]struct {
		conn  func(*fakeConn) bmc.Conn
		dials int
	}{
		"one session for all":             {func(c *fakeConn) bmc.Conn { return &switchingConn{fakeConn: c} }, 1},
		"a driver that refuses to switch": {func(c *fakeConn) bmc.Conn { return &switchingConn{fakeConn: c, refuses: true} }, 3},
		"a driver that cannot switch":     {func(c *fakeConn) bmc.Conn { return c }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBMC{t: t} // complains of calls that overlap
			pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
				conn, err := f.dial(ctx, target)
				if err != nil {
					return nil, err
				}
				c, _ := conn.(*fakeConn)
				return tc.conn(c), nil
			}, bmc.PoolOptions{})
			systems := []string{"redfish://a/redfish/v1/Systems/1", "Redfish://A/redfish/v1/Systems/2", "redfish://a/redfish/v1/Systems/1"}
			for _, address := range systems {
				must(t, pool.Do(t.Context(), target(address), func(ctx context.Context, c bmc.Conn) error { return readState(ctx, c) }))
			}
			if f.opened != tc.dials || f.peak != 1 {
				t.Errorf("%d sessions opened, %d at once, want %d and 1", f.opened, f.peak, tc.dials)
			}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					if err := pool.Do(t.Context(), target(systems[i%2]), readState); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if f.peak != 1 {
				t.Errorf("%d sessions at once", f.peak)
			}
			must(t, pool.Close(t.Context()))
			wantOpen(t, f, 0)
		})
	}
}

func wantOpen(t *testing.T, f *fakeBMC, want int) {
	t.Helper()
	if _, open := f.snapshot(); open != want {
		t.Errorf("%d sessions open, want %d", open, want)
	}
}

// TestPoolSystemsShareTheRest: a BMC that fails is left alone for all its systems, and
// that another of them is asked for is no correction.
func TestPoolSystemsShareTheRest(t *testing.T) {
	f := &fakeBMC{t: t, dialErr: bmc.ErrUnreachable}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{Rest: bmc.RestOptions{After: 2, Base: time.Hour, Max: time.Hour}})
	for i, address := range []string{"redfish://a/redfish/v1/Systems/1", "redfish://a/redfish/v1/Systems/2", "redfish://a/redfish/v1/Systems/3"} {
		err := pool.Do(t.Context(), target(address), readState)
		var rests *bmc.RestError
		if got := errors.As(err, &rests); got != (i == 2) || !errors.Is(err, bmc.ErrUnreachable) {
			t.Errorf("system %d: %v", i+1, err)
		}
	}
	if c := pool.Contact("redfish://a/redfish/v1/Systems/7"); c.Failures != 2 {
		t.Errorf("%d failures, want 2", c.Failures)
	}
	must(t, pool.Close(t.Context()))
}

// TestPoolWithoutIdleTimeLeavesAFailingBMC: a BMC that fails is kept in mind for its
// session's sake; where no session is kept there is nothing to wait for, again and again.
func TestPoolWithoutIdleTimeLeavesAFailingBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, dialErr: bmc.ErrUnreachable}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: -1})
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnreachable) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour) // does not end while a timer of no time begins anew
		must(t, pool.Close(t.Context()))
	})
}
