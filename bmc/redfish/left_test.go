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

// hasOne sees that the BMC has one session of the pool's, and none once that is closed.
func (r *rig) hasOne(t *testing.T, pool *bmc.Pool) {
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

// TestEndsTheSessionsOfAnIllBMC: one that refuses all of a sudden what it knows, the end
// of a session too, has none left of ours when it is well again.
func TestEndsTheSessionsOfAnIllBMC(t *testing.T) {
	for name, fault := range map[string]labbmc.Faults{
		"401 to all": {Status: 401}, "401 to ends": {Status: 401, Match: func(method, _ string) bool { return method == "DELETE" }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Rest: bmc.RestOptions{After: -1, LockAfter: -1}})
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
			r.hasOne(t, pool)
		})
	}
}

// TestEndsTheSessionsThatFoundNoSystem: a BMC that takes a login and then shows nothing, nor
// ends the session, is tried again and again, and has few places for sessions.
func TestEndsTheSessionsThatFoundNoSystem(t *testing.T) {
	r := newRig(t, nil)
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Rest: bmc.RestOptions{After: -1, LockAfter: -1}})
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
	r.hasOne(t, pool)
}

// TestForgottenSessionIsNotAnothers: after a restart the BMC counts its sessions from
// one again; the number of ours may be somebody else's, who keeps it.
func TestForgottenSessionIsNotAnothers(t *testing.T) {
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
