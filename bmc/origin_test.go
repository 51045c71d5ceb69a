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

// switchingConn serves all systems with one session.
type switchingConn struct {
	*fakeConn
	refuses bool
}

func (c *switchingConn) SwitchSystem(address string) error {
	if c.refuses {
		return bmc.ErrAddress
	}
	c.target.Address = address
	return nil
}

// TestSystemsShareTheirBMC shows that the systems behind a BMC never use two sessions or
// two calls at once.
func TestSystemsShareTheirBMC(t *testing.T) {
	for name, tc := range map[string]struct {
		conn  func(*fakeConn) bmc.Conn
		dials int
	}{
		"one session for all":             {func(c *fakeConn) bmc.Conn { return &switchingConn{fakeConn: c} }, 1},
		"a driver that refuses to switch": {func(c *fakeConn) bmc.Conn { return &switchingConn{fakeConn: c, refuses: true} }, 3},
		"a driver that cannot switch":     {func(c *fakeConn) bmc.Conn { return c }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBMC{t: t} // fails the test if calls overlap
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

// TestSystemsShareThePause shows that a pause applies to all systems of a BMC, and that a
// call to another of them does not end it.
func TestSystemsShareThePause(t *testing.T) {
	f := &fakeBMC{t: t, dialErr: bmc.ErrUnreachable}
	pool := newPool(t, f.dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: 2, Base: time.Hour, Max: time.Hour}})
	for i, address := range []string{"redfish://a/redfish/v1/Systems/1", "redfish://a/redfish/v1/Systems/2", "redfish://a/redfish/v1/Systems/3"} {
		err := pool.Do(t.Context(), target(address), readState)
		var paused *bmc.PausedError
		if got := errors.As(err, &paused); got != (i == 2) || !errors.Is(err, bmc.ErrUnreachable) {
			t.Errorf("system %d: %v", i+1, err)
		}
	}
	if c := pool.CallStatus("redfish://a/redfish/v1/Systems/7"); c.Failures != 2 {
		t.Errorf("%d failures, want 2", c.Failures)
	}
}

// TestPoolWithoutIdleTimeForgetsAFailingBMC shows that a pool without idle sessions does
// not restart its idle timer endlessly for a failing BMC.
func TestPoolWithoutIdleTimeForgetsAFailingBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, dialErr: bmc.ErrUnreachable}
		pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: -1})
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnreachable) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour) // never returns if the timer restarts without a delay
	})
}
