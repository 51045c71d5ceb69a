// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/test/needs"
)

// virtual adapts pyghmi's server to the suite. The server does not report its sessions.
type virtual struct {
	*labipmi.Pyghmi
	bmctest.NoExtras
}

func (v virtual) Restart()      {}
func (v virtual) Sessions() int { return 0 }

func (v virtual) Powered() bool {
	power := slices.DeleteFunc(v.Log(), func(line string) bool { return !strings.HasPrefix(line, "power ") })
	return len(power) > 0 && power[len(power)-1] == "power on"
}

func (v virtual) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, line := range v.Log() {
		if device, ok := strings.CutPrefix(line, "boots "); ok {
			boots = append(boots, map[string]bmc.BootTarget{
				"default": bmc.BootNone, "network": bmc.BootPXE, "hd": bmc.BootDisk, "optical": bmc.BootCD, "setup": bmc.BootSetup,
			}[device])
		}
	}
	return boots
}

func pyghmiRig(t *testing.T) bmctest.Rig {
	t.Helper()
	needs.File(t, labipmi.PyghmiModule)
	const password = "canary-14-byte" // testWrongPassword adds six
	p, err := labipmi.StartPyghmi(t.TempDir(), username, password)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return bmctest.Rig{
		Dial: ipmi.Dial, Target: bmc.Target{Address: p.Address(), Username: username, Password: password}, Server: virtual{Pyghmi: p},
		Inventory: bmc.Inventory{Identity: bmc.Identity{BMCFirmware: "1.00"}}, Lacks: []bmc.PowerAction{bmc.ActionGracefulRestart},
		Expect: bmctest.Expectations{
			OverrideStays: true, BMCVersion: "1.00", Health: &bmc.HealthReport{Overall: bmc.HealthUnknown}, Reset: func() bool { return slices.Contains(p.Log(), "cold reset") },
		},
	}
}

// TestMatrixPyghmi runs the matrix on pyghmi's server, which VirtualBMC uses.
func TestMatrixPyghmi(t *testing.T) {
	bmctest.Matrix(t, bmctest.DriverIPMI, bmctest.Pyghmi, pyghmiRig)
}

// TestPyghmiBootMode shows that the error reports an ignored boot mode.
func TestPyghmiBootMode(t *testing.T) {
	r := pyghmiRig(t)
	conn, err := ipmi.Dial(t.Context(), r.Target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	err = conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.ModeUEFI})
	if !errors.Is(err, bmc.ErrNotApplied) || !strings.Contains(err.Error(), "accepted the device but not mode UEFI") {
		t.Errorf("error %v", err)
	}
	if now, err := conn.BootOverride(t.Context()); err != nil || now.Target != bmc.BootPXE {
		t.Errorf("override %+v, %v", now, err)
	}
}

// TestPyghmiUnknownUser shows the error for a user name that pyghmi's server ignores.
func TestPyghmiUnknownUser(t *testing.T) {
	r := pyghmiRig(t)
	r.Target.Username = "nobody"
	conn, err := ipmi.Dial(t.Context(), r.Target)
	if err == nil {
		_ = conn.Close(context.Background())
	}
	if !errors.Is(err, bmc.ErrTimeout) || !strings.Contains(err.Error(), "no answer to the user name") {
		t.Errorf("error %v", err)
	}
}
