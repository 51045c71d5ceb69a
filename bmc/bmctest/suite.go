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

// Server is the truth about the server behind the BMC.
type Server interface {
	Powered() bool
	// Boots lists what each boot so far started from.
	Boots() []bmc.BootTarget
	// Restart restarts the server as its own operating system would.
	Restart()
	// Sessions counts what is open at the BMC.
	Sessions() int
	Extras
}

// Extras are what only some features need; see NoExtras.
type Extras interface {
	// Writes counts the requests to the BMC that were no reads; 0 where they are
	// not counted.
	Writes() int
	// FirmwareURL is an image for UpdateURL, and FirmwareImage for UpdatePush, with
	// the version that it brings.
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
	// Inventory is what the BMC has to tell.
	Inventory bmc.Inventory
	// Lacks are power actions that the protocol has not: they must answer
	// ErrNotSupported.
	Lacks []bmc.PowerAction
	// Beyond is the truth that only some rigs know.
	Beyond Beyond
}

// Run runs what every driver must do on every BMC; each test gets a rig of its own.
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
		{bmc.ActionOn, bmc.PowerOn}, // again: no error, no change
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

// testVitals: what a poll asks for is what the longer ways tell. A driver without it
// says so, and is asked for the power state instead (bmc.Pool).
func testVitals(t *testing.T, _ Rig, conn bmc.Conn) {
	for _, action := range []bmc.PowerAction{bmc.ActionOn, bmc.ActionForceOff} {
		setPower(t, conn, action)
		vitals, err := conn.Vitals(t.Context())
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
		// The sum of a poll may leave out sensors, and makes nothing up.
		report, err := conn.Health(t.Context())
		if err != nil {
			report.Overall = bmc.HealthUnknown
		}
		told := []bmc.HealthState{bmc.HealthUnknown, bmc.HealthOK, bmc.HealthWarning, bmc.HealthCritical}
		if slices.Index(told, vitals.Health) > slices.Index(told, report.Overall) {
			t.Errorf("vitals after %s: health %s, and in detail %s", action, vitals.Health, report.Overall)
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

// testBootMode: a mode that was set stays when an override without one follows.
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

// refusedCredentials: the BMC refuses the target's credentials.
func refusedCredentials(t *testing.T, dial bmc.Dialer, target bmc.Target) {
	t.Helper()
	conn, err := dial(t.Context(), target)
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
