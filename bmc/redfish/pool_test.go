// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

func readState(ctx context.Context, c bmc.Conn) error { _, err := c.PowerState(ctx); return err }

// TestPoolKeepsOneSession checks that many callers share one session with a BMC that allows one
// and sometimes forgets it.
func TestPoolKeepsOneSession(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) { c.MaxSessions = 1 })
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				if err := pool.Do(t.Context(), r.target, readState); err != nil {
					t.Error(err)
				}
				if i == 0 {
					r.SetFaults(labbmc.Faults{ForgetSessions: true}) // as a restart does
				}
			}
		})
	}
	wg.Wait()
	if r.PeakSessions() != 1 {
		t.Errorf("%d sessions at once, want 1", r.PeakSessions())
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if r.Sessions() != 0 {
		t.Errorf("%d sessions left", r.Sessions())
	}
}

// TestPoolLogsOutAfterTimeout checks that the session is ended when a BMC answers again after a
// call timed out.
func TestPoolLogsOutAfterTimeout(t *testing.T) {
	r := newRig(t, nil)
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{CallTimeout: shortWait})
	if err := pool.Do(t.Context(), r.target, readState); err != nil {
		t.Fatal(err)
	}
	r.SetFaults(labbmc.Faults{Hang: true, Match: func(method, _ string) bool { return method == "GET" }})
	if err := pool.Do(t.Context(), r.target, readState); !errors.Is(err, bmc.ErrTimeout) {
		t.Errorf("error %v, want ErrTimeout", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pool.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestLogoutOverBrokenConnection checks that a connection that breaks during a logout, before or
// after the BMC reads it, leaves no session.
func TestLogoutOverBrokenConnection(t *testing.T) {
	for name, fault := range map[string]labbmc.Faults{"before": {Drop: true}, "after": {LoseReply: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			fault.Every = 2
			fault.Match = func(method, _ string) bool { return method == "DELETE" }
			r.SetFaults(fault)
			for i := range 4 {
				conn, err := redfish.Dial(t.Context(), r.target)
				if err != nil {
					t.Fatal(err)
				}
				if err := conn.Close(t.Context()); err != nil {
					t.Errorf("end of session %d: %v", i, err)
				}
			}
			if n := r.Sessions(); n != 0 {
				t.Errorf("%d sessions left", n)
			}
		})
	}
}
