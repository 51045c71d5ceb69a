// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

func stays(b Beyond) bool { return b.Stays }

// setStaying sets an override for one boot. A BMC that shows that it stays is found out;
// one that cannot show it shows it as asked.
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

// testStayingBoot: an override holds until the next one is set.
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
