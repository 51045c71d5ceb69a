// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/vendor"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// TestMatrixPlain runs the suite for the drivers that do not use Redfish (make test-bmc).
func TestMatrixPlain(t *testing.T) {
	for _, tc := range []struct {
		driver string
		blind  bmctest.WriteOnlyBoot
		lacks  []bmc.PowerAction
	}{
		{bmctest.DriverRPC, bmctest.WriteOnlyBoot{Once: []bmc.BootTarget{bmc.BootPXE, bmc.BootDisk}, Persistent: true}, []bmc.PowerAction{bmc.ActionGracefulRestart}},
		{bmctest.DriverAMT, bmctest.WriteOnlyBoot{Once: []bmc.BootTarget{bmc.BootPXE}}, nil},
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
						Dial: r.driver.Dial, Target: r.target, Server: r, Lacks: tc.lacks, Expect: bmctest.Expectations{WriteOnlyBoot: &blind},
					}
				})
			})
		}
	}
}

// TestMatrixBoard runs the suite for ASRock Rack.
func TestMatrixBoard(t *testing.T) {
	bmctest.Matrix(t, bmctest.DriverASRockRack, bmctest.E3C246D4I, func(t *testing.T) bmctest.Rig {
		r := newPlain(t, bmctest.DriverASRockRack, nil)
		return bmctest.Rig{
			Dial: r.driver.Dial, Target: r.target, Server: r, Lacks: []bmc.PowerAction{bmc.ActionGracefulRestart},
			Inventory: bmc.Inventory{Identity: bmc.Identity{
				Serial: "SER123", Manufacturer: "ASRockRack", Model: "E3C246D4I-NL", BMCFirmware: r.board.Version(update.BMC),
			}},
			Expect: bmctest.Expectations{Reset: func() bool { return r.board.Resets() == 1 }},
		}
	})
}

// TestMatrixRedfish runs the suite for the drivers that use Redfish.
func TestMatrixRedfish(t *testing.T) {
	for _, name := range []string{bmctest.DriverDell, bmctest.DriverSupermicro, bmctest.DriverOpenBMC} {
		for _, p := range bmctest.Personalities(name) {
			t.Run(string(p), func(t *testing.T) {
				bmctest.Matrix(t, name, p, func(t *testing.T) bmctest.Rig {
					r := newPersonality(t, name, p, nil)
					return bmctest.Rig{
						Dial: r.driver.Dial, Target: r.target, Server: server{redfishRig: r}, Inventory: r.inventory(), Lacks: r.lacks(),
					}
				})
			})
		}
	}
}

// TestDriverOffers checks that a driver offers a capability exactly if one cell of the matrix
// requires it.
func TestDriverOffers(t *testing.T) {
	for _, d := range vendor.Drivers() {
		offers := append(slices.Clone(d.Offers), bmc.CapPower, bmc.CapBootDevice, bmc.CapInventory) // every driver has these
		for _, f := range bmctest.Features() {
			c := bmctest.CapabilityOf(f)
			if slices.Contains([]bmc.Capability{bmc.CapPower, bmc.CapBootDevice, bmc.CapInventory}, c) {
				continue
			}
			held := slices.ContainsFunc(bmctest.Features(), func(f bmctest.Feature) bool {
				return bmctest.CapabilityOf(f) == c && slices.ContainsFunc(bmctest.Personalities(d.Name), func(p bmctest.Personality) bool {
					_, lacks := bmctest.Unsupported(d.Name, p, f)
					return !lacks
				})
			})
			if slices.Contains(offers, c) != held {
				t.Errorf("%s: %s offered %v, held %v", d.Name, c, !held, held)
			}
		}
	}
}
