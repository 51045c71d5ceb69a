// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// Server is the truth about the server behind the BMC.
type Server interface {
	Powered() bool
	// Boots lists what each boot so far started from.
	Boots() []bmc.BootTarget
	// Restart restarts the server as its own operating system would.
	Restart()
	// Sessions counts what is open at the BMC.
	Sessions() int
}

// Rig is one BMC under test, its server off and without a boot override.
type Rig struct {
	Dial   bmc.Dialer
	Target bmc.Target
	Server Server
	// Inventory is what the BMC has to tell.
	Inventory bmc.Inventory
}

// Run runs the suite; each test gets a rig of its own.
func Run(t *testing.T, newRig func(t *testing.T) Rig) {
	for _, tc := range []struct {
		name string
		test func(t *testing.T, r Rig, conn bmc.Conn)
	}{
		{"power", testPower},
		{"restart", testRestart},
		{"boot once", testBootOnce},
		{"boot persistent", testBootPersistent},
		{"boot mode", testBootMode},
		{"inventory", testInventory},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			conn, err := r.Dial(t.Context(), r.Target)
			if err != nil {
				t.Fatal(err)
			}
			tc.test(t, r, conn)
			// A caller that has run out of time still ends its session.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := conn.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
			if n := r.Server.Sessions(); n != 0 {
				t.Errorf("%d sessions left open", n)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) { testWrongPassword(t, newRig(t)) })
}

func testPower(t *testing.T, r Rig, conn bmc.Conn) {
	for _, step := range []struct {
		action bmc.PowerAction
		want   bmc.PowerState
	}{
		{bmc.ActionOn, bmc.PowerOn},
		{bmc.ActionOn, bmc.PowerOn}, // again: no error, no change
		{bmc.ActionForceRestart, bmc.PowerOn},
		{bmc.ActionForceOff, bmc.PowerOff},
		{bmc.ActionForceOff, bmc.PowerOff},
		{bmc.ActionOn, bmc.PowerOn},
		{bmc.ActionGracefulOff, bmc.PowerOff},
	} {
		if err := conn.SetPower(t.Context(), step.action); err != nil {
			t.Fatalf("SetPower(%s): %v", step.action, err)
		}
		got, err := conn.PowerState(t.Context())
		if err != nil {
			t.Fatalf("PowerState: %v", err)
		}
		if got != step.want || r.Server.Powered() != (step.want == bmc.PowerOn) {
			t.Errorf("after %s: state %s, server powered %v, want %s", step.action, got, r.Server.Powered(), step.want)
		}
	}
	if err := conn.SetPower(t.Context(), "Levitate"); !errors.Is(err, bmc.ErrNotSupported) {
		t.Errorf("unknown action: %v, want ErrNotSupported", err)
	}
}

func testRestart(t *testing.T, r Rig, conn bmc.Conn) {
	must(t, conn.SetPower(t.Context(), bmc.ActionOn))
	must(t, conn.SetPower(t.Context(), bmc.ActionForceRestart))
	must(t, conn.SetPower(t.Context(), bmc.ActionGracefulRestart))
	want := []bmc.BootTarget{bmc.BootNone, bmc.BootNone, bmc.BootNone}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func testBootOnce(t *testing.T, r Rig, conn bmc.Conn) {
	for _, target := range []bmc.BootTarget{bmc.BootPXE, bmc.BootDisk} {
		want := bmc.BootOverride{Target: target}
		must(t, conn.SetBootOverride(t.Context(), want))
		wantOverride(t, conn, want)
		must(t, conn.SetPower(t.Context(), bmc.ActionOn))
		wantOverride(t, conn, bmc.BootOverride{Target: bmc.BootNone}) // used up
		r.Server.Restart()
		must(t, conn.SetPower(t.Context(), bmc.ActionForceOff))
	}
	want := []bmc.BootTarget{bmc.BootPXE, bmc.BootNone, bmc.BootDisk, bmc.BootNone}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func testBootPersistent(t *testing.T, r Rig, conn bmc.Conn) {
	persistent := bmc.BootOverride{Target: bmc.BootDisk, Persistent: true}
	must(t, conn.SetBootOverride(t.Context(), persistent))
	must(t, conn.SetPower(t.Context(), bmc.ActionOn))
	r.Server.Restart()
	wantOverride(t, conn, persistent)
	must(t, conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootNone}))
	wantOverride(t, conn, bmc.BootOverride{Target: bmc.BootNone})
	r.Server.Restart()
	want := []bmc.BootTarget{bmc.BootDisk, bmc.BootDisk, bmc.BootNone}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

// testBootMode: a mode that was set stays when an override without one follows.
func testBootMode(t *testing.T, _ Rig, conn bmc.Conn) {
	for _, mode := range []bmc.BootMode{bmc.ModeBIOS, bmc.ModeUEFI} {
		must(t, conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Mode: mode}))
		must(t, conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootDisk}))
		got, err := conn.BootOverride(t.Context())
		must(t, err)
		if want := (bmc.BootOverride{Target: bmc.BootDisk, Mode: mode}); got != want {
			t.Errorf("override = %+v, want %+v", got, want)
		}
	}
}

func testInventory(t *testing.T, r Rig, conn bmc.Conn) {
	got, err := conn.Inventory(t.Context())
	must(t, err)
	if diff := cmp.Diff(r.Inventory, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	id, err := conn.Identity(t.Context())
	must(t, err)
	if diff := cmp.Diff(r.Inventory.Identity, id); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func testWrongPassword(t *testing.T, r Rig) {
	r.Target.Password += "-wrong"
	conn, err := r.Dial(t.Context(), r.Target)
	if err == nil {
		// A protocol without sessions may find out with the first call.
		_, err = conn.PowerState(t.Context())
		_ = conn.Close(t.Context())
	}
	if !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("error %v, want ErrUnauthorized", err)
	}
}

// wantOverride compares without the mode, which the firmware may fill in.
func wantOverride(t *testing.T, conn bmc.Conn, want bmc.BootOverride) {
	t.Helper()
	got, err := conn.BootOverride(t.Context())
	must(t, err)
	got.Mode = want.Mode
	if got != want {
		t.Errorf("override = %+v, want %+v", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
