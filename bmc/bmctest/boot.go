// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

func isBlind(b Expectations) bool { return b.WriteOnlyBoot != nil }

// testBlindBoot sets overrides for one boot and for all. The override must not be readable.
func testBlindBoot(t *testing.T, r Rig, conn bmc.Conn) {
	var want []bmc.BootTarget
	for _, target := range r.Expect.WriteOnlyBoot.Once {
		setBoot(t, conn, bmc.BootOverride{Target: target})
		if o, err := conn.BootOverride(t.Context()); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("override %+v, %v: want ErrNotSupported", o, err)
		}
		setPower(t, conn, bmc.ActionOn)
		r.Server.Restart()
		setPower(t, conn, bmc.ActionForceOff)
		want = append(want, target, bmc.BootNone)
	}
	always := bmc.BootOverride{Target: bmc.BootDisk, Persistent: true}
	if r.Expect.WriteOnlyBoot.Persistent {
		setBoot(t, conn, always)
		setPower(t, conn, bmc.ActionOn)
		r.Server.Restart()
		setBoot(t, conn, bmc.BootOverride{Target: bmc.BootNone})
		r.Server.Restart()
		want = append(want, bmc.BootDisk, bmc.BootDisk, bmc.BootNone)
	} else if err := conn.SetBootOverride(t.Context(), always); !errors.Is(err, bmc.ErrNotSupported) {
		t.Errorf("for every boot: %v, want ErrNotSupported", err)
	}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func testBlindMode(t *testing.T, r Rig, conn bmc.Conn) {
	for _, mode := range []bmc.BootMode{bmc.ModeBIOS, bmc.ModeUEFI, bmc.ModeBIOS} {
		setBoot(t, conn, bmc.BootOverride{Target: bmc.BootPXE, Mode: mode})
		if got := r.Expect.WriteOnlyBoot.Mode(); got != mode {
			t.Errorf("mode %s, want %s", got, mode)
		}
	}
}

func testBlindTarget(target bmc.BootTarget) check {
	return func(t *testing.T, r Rig, conn bmc.Conn) {
		setBoot(t, conn, bmc.BootOverride{Target: target})
		setPower(t, conn, bmc.ActionOn)
		if diff := cmp.Diff([]bmc.BootTarget{target}, r.Server.Boots()); diff != "" {
			t.Errorf("boots (-want +got):\n%s", diff)
		}
	}
}

func stays(b Expectations) bool { return b.OverrideStays }

// setStaying sets an override for one boot. A BMC that reports it as persistent causes
// ErrOverrideStays; others report it as requested.
func setStaying(t *testing.T, conn bmc.Conn, o bmc.BootOverride) {
	t.Helper()
	if err := conn.SetBootOverride(t.Context(), o); err != nil && !errors.Is(err, bmc.ErrOverrideStays) {
		t.Fatal(err)
	}
	got, err := conn.BootOverride(t.Context())
	must(t, err)
	if got.Target != o.Target || o.Mode != "" && got.Mode != o.Mode {
		t.Errorf("override %+v, want %+v", got, o)
	}
}

// testStayingBoot shows that an override holds until the next one is set.
func testStayingBoot(t *testing.T, r Rig, conn bmc.Conn) {
	var want []bmc.BootTarget
	for _, target := range []bmc.BootTarget{bmc.BootPXE, bmc.BootDisk} {
		setStaying(t, conn, bmc.BootOverride{Target: target})
		setPower(t, conn, bmc.ActionOn)
		setPower(t, conn, bmc.ActionForceRestart)
		setPower(t, conn, bmc.ActionForceOff)
		want = append(want, target, target)
	}
	if diff := cmp.Diff(want, r.Server.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func testStayingMode(t *testing.T, _ Rig, conn bmc.Conn) {
	for _, mode := range []bmc.BootMode{bmc.ModeBIOS, bmc.ModeUEFI} {
		setStaying(t, conn, bmc.BootOverride{Target: bmc.BootPXE, Mode: mode})
		setStaying(t, conn, bmc.BootOverride{Target: bmc.BootDisk})
		if got, err := conn.BootOverride(t.Context()); err != nil || got.Mode != mode {
			t.Errorf("override %+v, %v, want mode %s", got, err, mode)
		}
	}
}

func testStayingTarget(target bmc.BootTarget) check {
	return func(t *testing.T, r Rig, conn bmc.Conn) {
		setStaying(t, conn, bmc.BootOverride{Target: target})
		setPower(t, conn, bmc.ActionOn)
		if diff := cmp.Diff([]bmc.BootTarget{target}, r.Server.Boots()); diff != "" {
			t.Errorf("boots (-want +got):\n%s", diff)
		}
	}
}
