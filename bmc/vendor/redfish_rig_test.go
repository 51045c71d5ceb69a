// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// emulated has the emulator's names of the Redfish personalities, with models that bmclib knows.
var emulated = map[bmctest.Personality]struct{ name, model string }{
	bmctest.IDRAC9: {"dell-idrac9", ""}, bmctest.IDRAC10: {"dell-idrac10", ""},
	bmctest.SupermicroX11: {"supermicro-x11", ""}, bmctest.SupermicroX12: {"supermicro-x12", "SYS-510T-MR-EI018"},
	bmctest.OpenBMC: {"openbmc", ""}, bmctest.AMI: {"ami", ""},
}

// redfishRig is a BMC with a personality.
type redfishRig struct {
	*labbmc.BMC
	bench   *labbmc.Bench
	persona labbmc.Personality
	driver  bmc.Driver
	target  bmc.Target
}

func system() labbmc.System {
	return labbmc.System{
		UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", Serial: "SER123", MACs: []string{"52:54:00:00:00:02", "52:54:00:00:00:01"},
		Cores: 16, MemoryBytes: 64 << 30, BMCUUID: "00000000-1111-2222-3333-444444444444",
	}
}

// newPersonality starts a BMC with a personality, which must have no session left when the test
// ends.
func newPersonality(t *testing.T, name string, p bmctest.Personality, change func(*labbmc.Config)) *redfishRig {
	t.Helper()
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	persona, ok := personality.Named(emulated[p].name)
	if !ok {
		t.Fatalf("no personality %q", emulated[p].name)
	}
	if model := emulated[p].model; model != "" {
		persona.Model = model
	}
	persona.Quirks.OneTarget = false // the builds of OpenBMC that bmclib can push to; see TestOpenBMCRequiresTarget
	r := &redfishRig{bench: &labbmc.Bench{}, driver: driver(t, name)}
	cfg := labbmc.Config{
		Authority: ca, Machine: r.bench, Username: username, Password: canary, System: system(), Personality: persona, RebootTime: shortWait,
	}
	if change != nil {
		change(&cfg)
	}
	r.persona = cfg.Personality
	if r.BMC, err = labbmc.Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := r.BMC.Sessions(); n != 0 {
			t.Errorf("%d sessions left open", n)
		}
		_ = r.BMC.Close()
	})
	host := strings.TrimPrefix(r.BMC.Address(), "redfish://")
	r.target = bmc.Target{Address: name + "://" + host, Username: username, Password: canary, CABundle: ca.PEM()}
	return r
}

// dial opens a connection that ends with the test.
func (r *redfishRig) dial(t *testing.T) bmc.Conn {
	t.Helper()
	conn, err := r.driver.Dial(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.SetFaults()
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

// server is the view of bmctest.
type server struct {
	bmctest.NoExtras
	*redfishRig
}

func (s server) Sessions() int { return s.BMC.Sessions() }
func (s server) Writes() int   { return len(s.BMC.Writes()) }
func (s server) Powered() bool { return s.bench.Powered() }
func (s server) Restart()      { _ = s.bench.Power(context.Background(), labbmc.Reset) }

func (s server) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, b := range s.bench.Boots() {
		boots = append(boots, bootTarget(b))
	}
	return boots
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
	return firmware(update.BIOS, 8<<20), 8 << 20, newVersion
}

// firmware returns an image of a size in bytes.
func firmware(component string, size int64) io.Reader {
	head := update.Image(component, newVersion)
	return io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, size-int64(len(head))))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// inventory returns the inventory that the BMC reports.
func (r *redfishRig) inventory() bmc.Inventory {
	s := system()
	uuid := s.UUID
	if r.persona.Quirks.SwapUUID {
		uuid = "528a3b9f-1d0c-6f4e-8a7b-112233445566"
	}
	return bmc.Inventory{
		Identity: bmc.Identity{
			SystemID: r.SystemPath(), UUID: uuid, Serial: s.Serial, Manufacturer: r.persona.Manufacturer, Model: r.persona.Model,
			BMCFirmware: r.persona.BMCFirmware, BMCUUID: s.BMCUUID,
		},
		MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, Cores: 16, MemoryBytes: 64 << 30,
	}
}

// lacks returns the power actions that the personality lacks.
func (r *redfishRig) lacks() []bmc.PowerAction {
	if types := r.persona.Quirks.ResetTypes; len(types) > 0 && !slices.Contains(types, "GracefulRestart") {
		return []bmc.PowerAction{bmc.ActionGracefulRestart}
	}
	return nil
}
