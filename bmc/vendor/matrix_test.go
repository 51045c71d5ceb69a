// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
)

// TestMatrixPlain is the matrix of the drivers that are not over Redfish (make
// test-bmc).
func TestMatrixPlain(t *testing.T) {
	for _, tc := range []struct {
		driver string
		blind  bmctest.Blind
		lacks  []bmc.PowerAction
	}{
		{bmctest.DriverRPC, bmctest.Blind{Once: []bmc.BootTarget{bmc.BootPXE, bmc.BootDisk}, Persistent: true}, []bmc.PowerAction{bmc.ActionGracefulRestart}},
		{bmctest.DriverAMT, bmctest.Blind{Once: []bmc.BootTarget{bmc.BootPXE}}, nil},
	} {
		for _, p := range bmctest.Personalities(tc.driver) {
			t.Run(string(p), func(t *testing.T) {
				bmctest.Matrix(t, tc.driver, p, func(t *testing.T) bmctest.Rig {
					r := newPlain(t, tc.driver, nil)
					blind := tc.blind
					blind.Mode = func() bmc.BootMode {
						return map[machine.Mode]bmc.BootMode{machine.UEFI: bmc.ModeUEFI, machine.Legacy: bmc.ModeBIOS}[r.bench.Boot().Mode]
					}
					return bmctest.Rig{
						Dial: r.driver.Dial, Target: r.target, Server: r, Lacks: tc.lacks, Beyond: bmctest.Beyond{Blind: &blind},
					}
				})
			})
		}
	}
}
