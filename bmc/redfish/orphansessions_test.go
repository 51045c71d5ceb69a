// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// hasOneSession checks that the BMC has one session of the pool, and none after the pool is
// closed.
func (r *rig) hasOneSession(t *testing.T, pool *bmc.Pool) {
	t.Helper()
	if n := r.Sessions(); n != 1 {
		t.Errorf("%d sessions are open, want ours alone", n)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestSessionsEndAfterUnauthorized checks that a BMC that suddenly answers 401 to everything,
// including logouts, has no session left when it recovers.
func TestSessionsEndAfterUnauthorized(t *testing.T) {
	for name, fault := range map[string]labbmc.Faults{
		"401 to all": {Status: 401}, "401 to ends": {Status: 401, Match: func(method, _ string) bool { return method == "DELETE" }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1, LockAfter: -1}})
			once := func() error {
				return pool.Do(t.Context(), r.target, func(ctx context.Context, c bmc.Conn) error {
					_ = c.Close(ctx) // as after a call that is refused
					return readState(ctx, c)
				})
			}
			for range 2 {
				r.SetFaults(fault)
				_ = once()
				r.SetFaults()
				if err := once(); err != nil {
					t.Fatal(err)
				}
			}
			r.hasOneSession(t, pool)
		})
	}
}

// TestSessionsEndWithoutSystem checks that logins at a BMC that then shows no system and refuses
// logouts do not use up its sessions.
func TestSessionsEndWithoutSystem(t *testing.T) {
	r := newRig(t, nil)
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1, LockAfter: -1}})
	r.SetFaults(labbmc.Faults{Status: 503, Match: func(method, path string) bool {
		return method == "DELETE" || strings.HasSuffix(path, "/Systems")
	}})
	for range 2 {
		if err := pool.Do(t.Context(), r.target, readState); err == nil {
			t.Fatal("a system was found")
		}
	}
	if n := r.Sessions(); n != 2 {
		t.Fatalf("%d sessions are open: the BMC ends them", n)
	}
	r.SetFaults()
	if err := pool.Do(t.Context(), r.target, readState); err != nil {
		t.Fatal(err)
	}
	r.hasOneSession(t, pool)
}

// TestForgottenSessionIsNotEnded checks that after a restart, when the BMC numbers its sessions
// from one again, a session of another user with the same number stays.
func TestForgottenSessionIsNotEnded(t *testing.T) {
	r := newRig(t, nil)
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	defer closePool(t, pool)
	if err := pool.Do(t.Context(), r.target, readState); err != nil {
		t.Fatal(err)
	}
	r.SetFaults(labbmc.Faults{ForgetSessions: true})
	other := r.dial(t)
	for range 3 {
		if err := pool.Do(t.Context(), r.target, readState); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.PowerState(t.Context()); err != nil {
		t.Errorf("another's session: %v", err)
	}
}
