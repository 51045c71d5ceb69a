// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// Settings and Secure Boot use the same boot. An iDRAC puts both in one job and rejects another
// (SYS011).
func testSettingsAndSecureBootShareABoot(t *testing.T, on *testEnv) {
	for _, maker := range []string{"dell-idrac9", "hpe-ilo6"} {
		t.Run(maker, func(t *testing.T) {
			m := prepared(t, on, maker, wantSetting("LogicalProc", "Disabled"), func(h *infrav1.IngotHost) { h.Spec.BootMode = infrav1.BootModeUEFISecureBoot })
			m.lives("Available", isAvailable)
			m.recordedOnce(infrav1.ReasonSecureBootOff)
			if got := m.setting("LogicalProc"); got != "Disabled" {
				t.Errorf("LogicalProc is %s", got)
			}
			m.direct(func(ctx context.Context, conn bmc.Conn) error {
				state, err := conn.SecureBoot(ctx)
				if !state.Active {
					t.Errorf("Secure Boot is %+v", state)
				}
				return err
			})
		})
	}
}

func testSecureBootContradictsSetting(t *testing.T, on *testEnv) {
	m := prepared(t, on, "dell-idrac9", wantSetting("SecureBoot", "Disabled"), func(h *infrav1.IngotHost) { h.Spec.BootMode = infrav1.BootModeUEFISecureBoot })
	m.direct(func(ctx context.Context, conn bmc.Conn) error {
		return errors.Join(conn.SetSecureBoot(ctx, true), conn.SetPower(ctx, bmc.ActionOn), conn.SetPower(ctx, bmc.ActionForceOff))
	})
	host := m.lives("refused", isReason(infrav1.ReasonSettingsRejected))
	if got := conditions.GetMessage(host, infrav1.HostPreparedCondition); !strings.Contains(got, `SecureBoot`) || !strings.Contains(got, "spec.bootMode UEFISecureBoot") {
		t.Errorf("message %q", got)
	}
}

// The system on a host in use may not boot with Secure Boot (I2).
func testSecureBootIsNotSetOnAHostInUse(t *testing.T, on *testEnv) {
	m := prepared(t, on, "dell-idrac9")
	m.installed()
	m.edit("h", func(h *infrav1.IngotHost) {
		wantSetting("LogicalProc", "Disabled")(h)
		h.Spec.BIOS.Apply, h.Spec.BootMode = infrav1.BIOSAtNextReboot, infrav1.BootModeUEFISecureBoot
	})
	m.lives("shown", func(h *infrav1.IngotHost) bool {
		return strings.Contains(conditions.GetMessage(h, infrav1.HostPreparedCondition), "Secure Boot is off")
	})
	if n := m.count("Bios"); n != 0 {
		t.Errorf("%d writes of settings", n)
	}
	m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BootMode = infrav1.BootModeUEFI })
	m.lives("pending", isReason(infrav1.ReasonRebootPending))
}
