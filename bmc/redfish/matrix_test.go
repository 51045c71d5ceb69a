// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// emulated has the emulator's names of the personalities.
var emulated = map[bmctest.Personality]string{
	bmctest.Standard: "standard", bmctest.IDRAC9: "dell-idrac9", bmctest.IDRAC10: "dell-idrac10",
	bmctest.ILO5: "hpe-ilo5", bmctest.ILO6: "hpe-ilo6", bmctest.SupermicroX11: "supermicro-x11",
	bmctest.SupermicroX12: "supermicro-x12", bmctest.LenovoXCC: "lenovo-xcc", bmctest.OpenBMC: "openbmc", bmctest.AMI: "ami",
	bmctest.IDRAC9Early: "dell-idrac9-early", bmctest.OpenBMCEarly: "openbmc-early",
	bmctest.BasicOnly: "basic-only", bmctest.MegaRAC: "ami-megarac",
}

// newPersonality returns a rig with a personality; change may be nil.
func newPersonality(t *testing.T, p bmctest.Personality, change func(*labbmc.Config)) *rig {
	t.Helper()
	persona, ok := personality.Named(emulated[p])
	if !ok {
		t.Fatalf("no personality %q", emulated[p])
	}
	r := newRig(t, func(c *labbmc.Config) {
		c.Personality = persona
		c.System.Manufacturer, c.System.Model, c.System.BMCFirmware = "", "", ""
		c.RebootTime = shortWait
		if change != nil {
			change(c)
		}
	})
	r.persona = persona
	return r
}

// TestMatrix runs the suite for each personality and capability (make test-bmc).
func TestMatrix(t *testing.T) {
	for _, p := range bmctest.Personalities(bmctest.DriverRedfish) {
		t.Run(string(p), func(t *testing.T) {
			bmctest.Matrix(t, bmctest.DriverRedfish, p, func(t *testing.T) bmctest.Rig {
				if p == bmctest.SushyTools {
					return newSushy(t, nil).suite()
				}
				r := newPersonality(t, p, nil)
				out := bmctest.Rig{
					Dial: dialFast, Target: r.target, Server: server{rig: r}, Inventory: reportedInventory(r),
				}
				if !slices.Contains(r.persona.Quirks.ResetTypes, "GracefulRestart") && len(r.persona.Quirks.ResetTypes) > 0 {
					out.Lacks = []bmc.PowerAction{bmc.ActionGracefulRestart} // forcing a restart is policy
				}
				return out
			})
		})
	}
}

// reportedInventory returns the inventory that the BMC reports.
func reportedInventory(r *rig) bmc.Inventory {
	persona, s := r.persona, system()
	uuid := s.UUID
	if persona.Quirks.SwapUUID {
		uuid = swapped(uuid)
	}
	return bmc.Inventory{
		Identity: bmc.Identity{
			SystemID: r.SystemPath(), UUID: uuid, Serial: s.Serial, Manufacturer: persona.Manufacturer, Model: persona.Model,
			BMCFirmware: persona.BMCFirmware, BMCUUID: s.BMCUUID,
		},
		MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, Cores: 16, MemoryBytes: 64 << 30,
	}
}

// swapped returns a UUID with its first three fields in the other byte order.
func swapped(uuid string) string {
	fields := strings.Split(uuid, "-")
	for i, f := range fields[:3] {
		var b strings.Builder
		for j := len(f); j > 0; j -= 2 {
			b.WriteString(f[j-2 : j])
		}
		fields[i] = b.String()
	}
	return strings.Join(fields, "-")
}

const newVersion = "99.1"

// FirmwareURL implements bmctest.Extras.
func (s server) FirmwareURL(t *testing.T) (url, version string) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(update.Image(update.BIOS, newVersion))
	}))
	t.Cleanup(web.Close)
	return web.URL + "/bios.bin", newVersion
}

// FirmwareImage implements bmctest.Extras: 8 MiB, most of them zeros.
func (s server) FirmwareImage(*testing.T) (image io.Reader, size int64, version string) {
	head := update.Image(update.BIOS, newVersion)
	size = 8 << 20
	return io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, size-int64(len(head)))), size, newVersion
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// bootNames has the emulator's names of boot sources.
var bootNames = map[string]bmc.BootTarget{
	"None": bmc.BootNone, "Pxe": bmc.BootPXE, "Hdd": bmc.BootDisk, "Cd": bmc.BootCD, "UsbCd": bmc.BootCD, "CD/DVD": bmc.BootCD,
	"BiosSetup": bmc.BootSetup, "UefiHttp": bmc.BootHTTP,
}

func bootTarget(t labbmc.Target) bmc.BootTarget {
	return cmp.Or(bootNames[string(t)], bmc.BootTarget(t))
}

// TestDriverOffers checks that the driver offers a capability exactly if one cell of the matrix
// requires it.
func TestDriverOffers(t *testing.T) {
	offers := append(redfish.Driver().Offers, bmc.CapPower, bmc.CapBootDevice, bmc.CapInventory)
	for _, f := range bmctest.Features() {
		held := slices.ContainsFunc(bmctest.Personalities(bmctest.DriverRedfish), func(p bmctest.Personality) bool {
			_, lacks := bmctest.Unsupported(bmctest.DriverRedfish, p, f)
			return !lacks
		})
		if slices.Contains(offers, bmctest.CapabilityOf(f)) != held {
			t.Errorf("%s: offered %v, held %v", f, !held, held)
		}
	}
}
