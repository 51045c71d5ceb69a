// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// Server is the server behind the BMC as it really is.
type Server interface {
	Powered() bool
	// Boots lists the sources of all boots so far.
	Boots() []bmc.BootTarget
	// Restart restarts the server as its own operating system would.
	Restart()
	// Sessions counts the open sessions of the BMC.
	Sessions() int
	Extras
}

// Extras are methods for only some features; see NoExtras.
type Extras interface {
	// Writes counts the requests to the BMC other than reads; 0 if it does not count them.
	Writes() int
	// FirmwareURL and FirmwareImage return images for UpdateURL and UpdatePush, and the version
	// that they install.
	FirmwareURL(t *testing.T) (url, version string)
	FirmwareImage(t *testing.T) (image io.Reader, size int64, version string)
	// Console checks both directions of an open console.
	Console(ctx context.Context, stream io.ReadWriter) error
}

// Rig is one BMC under test, its server off and without a boot override.
type Rig struct {
	Dial   bmc.Dialer
	Target bmc.Target
	Server Server
	// Inventory is the expected inventory.
	Inventory bmc.Inventory
	// Lacks are power actions that the protocol does not have; they must return ErrNotSupported.
	Lacks []bmc.PowerAction
	// Expect holds the expected values of optional capabilities.
	Expect Expectations
}

// Run runs the tests for every driver and BMC; each test gets its own rig.
func Run(t *testing.T, newRig func(t *testing.T) Rig) {
	for _, tc := range []struct {
		name string
		test check
	}{
		{"power", testPower},
		{"restart", testRestart},
		{"boot once", testBootOnce},
		{"boot persistent", testBootPersistent},
		{"boot mode", testBootMode},
		{"inventory", testInventory},
	} {
		t.Run(tc.name, func(t *testing.T) { withConn(t, newRig(t), tc.test) })
	}
	t.Run("wrong password", func(t *testing.T) { testWrongPassword(t, newRig(t)) })
}

func testPower(t *testing.T, r Rig, conn bmc.Conn) {
	for _, step := range []struct {
		action bmc.PowerAction
		want   bmc.PowerState
	}{
		{bmc.ActionOn, bmc.PowerOn},
		{bmc.ActionOn, bmc.PowerOn}, // again without an effect
		{bmc.ActionForceRestart, bmc.PowerOn},
		{bmc.ActionForceOff, bmc.PowerOff},
		{bmc.ActionForceOff, bmc.PowerOff},
		{bmc.ActionOn, bmc.PowerOn},
		{bmc.ActionGracefulOff, bmc.PowerOff},
	} {
		setPower(t, conn, step.action)
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

// testVitals compares a poll with the detailed reads. A driver may return ErrNotSupported.
func testVitals(t *testing.T, _ Rig, conn bmc.Conn) {
	for _, action := range []bmc.PowerAction{bmc.ActionOn, bmc.ActionForceOff} {
		setPower(t, conn, action)
		vitals, err := conn.PollState(t.Context())
		if errors.Is(err, bmc.ErrNotSupported) {
			t.Log("no vitals in one request")
			return
		}
		must(t, err)
		power, err := conn.PowerState(t.Context())
		must(t, err)
		if vitals.Power != power {
			t.Errorf("vitals after %s: power %s, want %s", action, vitals.Power, power)
		}
		// A poll may ignore sensors, but must not report a worse state.
		report, err := conn.Health(t.Context())
		if err != nil {
			report.Overall = bmc.HealthUnknown
		}
		order := []bmc.HealthState{bmc.HealthUnknown, bmc.HealthOK, bmc.HealthWarning, bmc.HealthCritical}
		if slices.Index(order, vitals.Health) > slices.Index(order, report.Overall) {
			t.Errorf("vitals after %s: health %s, in detail %s", action, vitals.Health, report.Overall)
		}
	}
}

func testRestart(t *testing.T, r Rig, conn bmc.Conn) {
	setPower(t, conn, bmc.ActionOn)
	setPower(t, conn, bmc.ActionForceRestart)
	want := []bmc.BootTarget{bmc.BootNone, bmc.BootNone}
	if slices.Contains(r.Lacks, bmc.ActionGracefulRestart) {
		if err := conn.SetPower(t.Context(), bmc.ActionGracefulRestart); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("graceful restart: %v, want ErrNotSupported", err)
		}
	} else {
		setPower(t, conn, bmc.ActionGracefulRestart)
		want = append(want, bmc.BootNone)
	}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func testBootOnce(t *testing.T, r Rig, conn bmc.Conn) {
	for _, target := range []bmc.BootTarget{bmc.BootPXE, bmc.BootDisk} {
		want := bmc.BootOverride{Target: target}
		setBoot(t, conn, want)
		wantOverride(t, conn, want)
		setPower(t, conn, bmc.ActionOn)
		wantOverride(t, conn, bmc.BootOverride{Target: bmc.BootNone}) // used up
		r.Server.Restart()
		setPower(t, conn, bmc.ActionForceOff)
	}
	want := []bmc.BootTarget{bmc.BootPXE, bmc.BootNone, bmc.BootDisk, bmc.BootNone}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func testBootPersistent(t *testing.T, r Rig, conn bmc.Conn) {
	persistent := bmc.BootOverride{Target: bmc.BootDisk, Persistent: true}
	setBoot(t, conn, persistent)
	setPower(t, conn, bmc.ActionOn)
	r.Server.Restart()
	wantOverride(t, conn, persistent)
	setBoot(t, conn, bmc.BootOverride{Target: bmc.BootNone})
	wantOverride(t, conn, bmc.BootOverride{Target: bmc.BootNone})
	r.Server.Restart()
	want := []bmc.BootTarget{bmc.BootDisk, bmc.BootDisk, bmc.BootNone}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

// testBootMode shows that an override without a mode keeps the mode.
func testBootMode(t *testing.T, _ Rig, conn bmc.Conn) {
	for _, mode := range []bmc.BootMode{bmc.ModeBIOS, bmc.ModeUEFI} {
		setBoot(t, conn, bmc.BootOverride{Target: bmc.BootPXE, Mode: mode})
		setBoot(t, conn, bmc.BootOverride{Target: bmc.BootDisk})
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
	refusedCredentials(t, r.Dial, r.Target)
}

// refusedCredentials checks that the BMC refuses the target's credentials.
func refusedCredentials(t *testing.T, dial bmc.Dialer, target bmc.Target) {
	t.Helper()
	conn, err := dial(t.Context(), target)
	if err == nil {
		// A protocol without sessions may refuse them at the first call.
		_, err = conn.PowerState(t.Context())
		_ = conn.Close(t.Context())
	}
	if !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("error %v, want ErrUnauthorized", err)
	}
}

// wantOverride ignores the mode unless it is given, because the firmware may set one.
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
