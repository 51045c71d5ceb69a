// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/sushy"
	"github.com/ingot-metal/ingot/test/eventually"
)

// sushyRig is an emulated sushy-tools in front of a Bench.
type sushyRig struct {
	*sushy.Server
	bmctest.NoExtras
	bench  *labbmc.Bench
	target bmc.Target
}

// newSushy starts sushy-tools as most labs do: HTTP without TLS, with a password.
func newSushy(t *testing.T, change func(*sushy.Config)) *sushyRig {
	t.Helper()
	r := &sushyRig{bench: &labbmc.Bench{}}
	cfg := sushy.Config{
		Machine: r.bench, Username: username, Password: canary, UUID: system().UUID, Name: "vm-1",
		MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, MemoryGiB: 16,
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.Server, err = sushy.Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	r.target = bmc.Target{Address: r.Address(), Username: username, Password: canary}
	return r
}

func (r *sushyRig) Powered() bool { return r.bench.Powered() }
func (r *sushyRig) Restart()      { _ = r.bench.Power(context.Background(), labbmc.Reset) }
func (r *sushyRig) Sessions() int { return 0 } // sushy-tools has no sessions

func (r *sushyRig) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, b := range r.bench.Boots() {
		boots = append(boots, bootTarget(b))
	}
	return boots
}

// suite returns the rig for bmctest.
func (r *sushyRig) suite() bmctest.Rig {
	return bmctest.Rig{
		Dial: dialFast, Target: r.target, Server: r,
		Inventory: bmc.Inventory{
			Identity: bmc.Identity{
				SystemID: r.SystemPath(), UUID: system().UUID, Manufacturer: "Sushy Emulator", BMCFirmware: "1.00", BMCUUID: system().UUID,
			},
			MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, MemoryBytes: 16 << 30,
		},
		Expect: bmctest.Expectations{OverrideStays: true, SecureBootAtOnce: true},
	}
}

func (r *sushyRig) dial(t *testing.T) bmc.Conn {
	t.Helper()
	conn, err := dialFast(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestSushyByAddress reaches sushy-tools with and without TLS, with and without a password, by the
// UUID and by the name of its system.
func TestSushyByAddress(t *testing.T) {
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*sushy.Config)
		path   string
	}{
		"in clear":         {nil, ""},
		"TLS":              {func(c *sushy.Config) { c.Authority = ca }, ""},
		"no password":      {func(c *sushy.Config) { c.Username, c.Password = "", "" }, ""},
		"path of the UUID": {nil, "/redfish/v1/Systems/" + system().UUID},
		"path of the name": {nil, "/redfish/v1/Systems/vm-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSushy(t, tc.change)
			r.target.Address += tc.path
			if strings.HasPrefix(r.target.Address, redfish.Scheme+":") {
				r.target.CABundle = ca.PEM()
			}
			conn := r.dial(t)
			if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}); !errors.Is(err, bmc.ErrOverrideStays) {
				t.Errorf("SetBootOverride: %v, want ErrOverrideStays", err)
			}
			if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]bmc.BootTarget{bmc.BootPXE}, r.Boots()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSushyDelaysPowerAction checks that SetPower copes with a fake driver that answers before it
// acts.
func TestSushyDelaysPowerAction(t *testing.T) {
	r := newSushy(t, func(c *sushy.Config) { c.PowerDelay = 20 * time.Millisecond })
	conn := r.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	eventually.Wait{Limit: longWait, Interval: time.Millisecond}.Until(t, "power", eventually.Holds(func() bool {
		state, err := conn.PowerState(t.Context())
		return err == nil && state == bmc.PowerOn
	}))
}

// TestSushyBIOS checks that settings, which sushy-tools applies to libvirt at once, are in force,
// and that their registry is found by its Id: no file has the name in Bios.
func TestSushyBIOS(t *testing.T) {
	r := newSushy(t, func(c *sushy.Config) { c.BIOS = true })
	conn := r.dial(t)
	schemas, err := conn.SettingSchemas(t.Context())
	if err != nil || !schemas["NumCores"].ReadOnly {
		t.Errorf("schemas %v, %v", schemas, err)
	}
	var refused *bmc.SettingError
	if err := conn.SetSettings(t.Context(), map[string]string{"ProcTurboMode": "Levitate"}); !errors.As(err, &refused) {
		t.Errorf("a value that the registry does not have: %v", err)
	}
	if err := conn.SetSettings(t.Context(), map[string]string{"ProcTurboMode": "Disabled"}); err != nil {
		t.Fatal(err)
	}
	now, err := conn.Settings(t.Context())
	if err != nil || now["ProcTurboMode"].Text != "Disabled" {
		t.Errorf("settings %v, %v", now, err)
	}
	if pending, err := conn.PendingSettings(t.Context()); err != nil || len(pending) != 0 {
		t.Errorf("pending %v, %v", pending, err)
	}
}

// TestSushyFetchesMedia checks that an image is inserted when sushy-tools can fetch it, and that
// its reason is reported when it cannot.
func TestSushyFetchesMedia(t *testing.T) {
	const image = "http://192.0.2.7:8080/agent.iso"
	fetch := errors.New("connection refused")
	r := newSushy(t, func(c *sushy.Config) { c.Fetch = func(context.Context, string) error { return fetch } })
	conn := r.dial(t)
	if _, err := conn.InsertMedia(t.Context(), bmc.MediaCD, image); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v", err)
	}
	fetch = nil
	if slot, err := conn.InsertMedia(t.Context(), bmc.MediaCD, image); err != nil || slot.Image != image || r.Image() != image {
		t.Errorf("slot %+v, %v, image %q", slot, err, r.Image())
	}
	if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootCD, Mode: bmc.ModeUEFI}); !errors.Is(err, bmc.ErrOverrideStays) {
		t.Errorf("SetBootOverride: %v, want ErrOverrideStays", err)
	}
}
