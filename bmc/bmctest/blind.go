// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

func isBlind(b Beyond) bool { return b.Blind != nil }

// testBlindBoot: each target holds for one boot, or for all; what is set cannot be
// read, and is not made up.
func testBlindBoot(t *testing.T, r Rig, conn bmc.Conn) {
	var want []bmc.BootTarget
	for _, target := range r.Beyond.Blind.Once {
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
	if r.Beyond.Blind.Persistent {
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
		if got := r.Beyond.Blind.Mode(); got != mode {
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
