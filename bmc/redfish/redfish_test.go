// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

const (
	// canary is the password: no error may show it.
	canary   = bmctest.Canary
	username = "admin"
	// longWait bounds calls that should not hang; shortWait is a deadline that is meant to pass.
	longWait  = 30 * time.Second
	shortWait = 300 * time.Millisecond
)

func system() labbmc.System {
	return labbmc.System{
		UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", Serial: "SER123", Manufacturer: "Lab", Model: "Emulated 1",
		MACs: []string{"52:54:00:00:00:02", "52:54:00:00:00:01"}, Cores: 16, MemoryBytes: 64 << 30,
		BMCFirmware: "1.2.3", BMCUUID: "00000000-1111-2222-3333-444444444444",
	}
}

// rig is an emulated BMC in front of a Bench.
type rig struct {
	*labbmc.BMC
	bench  *labbmc.Bench
	target bmc.Target
	// persona is set by newPersonality.
	persona labbmc.Personality
}

// newRig starts a BMC, which must have no session left when the test ends.
func newRig(t *testing.T, change func(*labbmc.Config)) *rig {
	t.Helper()
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	bench := &labbmc.Bench{}
	cfg := labbmc.Config{Authority: ca, Machine: bench, Username: username, Password: canary, System: system()}
	if change != nil {
		change(&cfg)
	}
	b, err := labbmc.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := b.Sessions(); n != 0 {
			t.Errorf("%d sessions left open", n)
		}
		_ = b.Close()
	})
	return &rig{BMC: b, bench: bench, target: bmc.Target{
		Address: b.Address(), Username: username, Password: canary, CABundle: ca.PEM(),
	}}
}

// dialFast is redfish.Dial without the waits for virtual media.
func dialFast(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	conn, err := redfish.Dial(ctx, target)
	if err == nil {
		redfish.HurryMedia(conn)
	}
	return conn, err
}

// dial opens a session that ends with the test.
func (r *rig) dial(t *testing.T) bmc.Conn {
	t.Helper()
	conn, err := dialFast(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.SetFaults(labbmc.Faults{})
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

// server is the view of the Bench for bmctest.
type server struct {
	*rig
	bmctest.NoExtras
}

func (s server) Sessions() int { return s.rig.Sessions() }
func (s server) Writes() int   { return len(s.rig.Writes()) }
func (s server) Powered() bool { return s.bench.Powered() }
func (s server) Restart()      { _ = s.bench.Power(context.Background(), labbmc.Reset) }

func (s server) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, b := range s.bench.Boots() {
		boots = append(boots, bootTarget(b))
	}
	return boots
}

// TestSuite runs bmctest on the personalities that support everything.
func TestSuite(t *testing.T) {
	for name, tc := range map[string]struct {
		vendor string
		quirks labbmc.Quirks
	}{
		"standard":                   {"", labbmc.Quirks{}},
		"etag":                       {"", labbmc.Quirks{ETag: true}},
		"gzip etag (iDRAC)":          {"Dell", labbmc.Quirks{ETag: true, GzipETag: true}},
		"no target None (HPE)":       {"HPE", labbmc.Quirks{NoTargetNone: true}},
		"enabled (Supermicro)":       {"Supermicro", labbmc.Quirks{NeedEnabled: true, ForgetBootMode: true}},
		"settings URI (iDRAC10)":     {"Dell", labbmc.Quirks{BootSettingsURI: true, ETag: true, GzipETag: true}},
		"future state (AMI)":         {"AMI", labbmc.Quirks{BootFutureState: true, NeedWholeBoot: true}},
		"future state (unknown)":     {"", labbmc.Quirks{BootFutureState: true, NeedWholeBoot: true}},
		"action info":                {"", labbmc.Quirks{ResetTypesByActionInfo: true}},
		"allowable values not shown": {"", labbmc.Quirks{NoAllowableValues: true}},
		"network adapters":           {"", labbmc.Quirks{NoEthernetInterfaces: true, NetworkAdapters: true}},
		"other system id":            {"", labbmc.Quirks{SystemID: "System.Embedded.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bmctest.Run(t, func(t *testing.T) bmctest.Rig {
				s := system()
				if tc.vendor != "" {
					s.Manufacturer = tc.vendor
				}
				r := newRig(t, func(c *labbmc.Config) { c.Quirks, c.System = tc.quirks, s })
				return bmctest.Rig{Dial: dialFast, Target: r.target, Server: server{rig: r}, Inventory: bmc.Inventory{
					Identity: bmc.Identity{
						SystemID: r.SystemPath(), UUID: s.UUID, Serial: s.Serial, Manufacturer: s.Manufacturer, Model: s.Model,
						BMCFirmware: s.BMCFirmware, BMCUUID: s.BMCUUID,
					},
					MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, Cores: 16, MemoryBytes: 64 << 30,
				}}
			})
		})
	}
}

func TestResetFallbacks(t *testing.T) {
	for _, tc := range []struct {
		name    string
		allowed []string
		action  bmc.PowerAction
		want    []string
		err     error
	}{
		{"on by ForceOn", []string{"ForceOn", "ForceOff"}, bmc.ActionOn, []string{"Reset ForceOn"}, nil},
		{"restart by PowerCycle", []string{"On", "PowerCycle"}, bmc.ActionForceRestart, []string{"Reset PowerCycle"}, nil},
		{"no graceful off", []string{"On", "ForceOff"}, bmc.ActionGracefulOff, nil, bmc.ErrNotSupported},
		{"no graceful restart", []string{"On", "ForceRestart"}, bmc.ActionGracefulRestart, nil, bmc.ErrNotSupported},
		{"on by the button", []string{"ForceOff", "PushPowerButton"}, bmc.ActionOn, []string{"Reset PushPowerButton"}, nil},
		{"off by the button while off", []string{"On", "PushPowerButton"}, bmc.ActionGracefulOff, nil, bmc.ErrNotSupported},
		{"NMI", []string{"On", "Nmi"}, bmc.ActionNMI, []string{"Reset Nmi"}, nil},
		{"no NMI", []string{"On"}, bmc.ActionNMI, nil, bmc.ErrNotSupported},
		{"no force off", []string{"On", "PushPowerButton"}, bmc.ActionForceOff, nil, bmc.ErrNotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *labbmc.Config) { c.Quirks.ResetTypes = tc.allowed })
			if err := r.dial(t).SetPower(t.Context(), tc.action); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, r.Actions()); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPowerButtonOnlyWhenOn checks that the power button switches a running server off and is not
// pressed for one that is off.
func TestPowerButtonOnlyWhenOn(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) { c.Quirks.ResetTypes = []string{"On", "PushPowerButton"} })
	conn := r.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetPower(t.Context(), bmc.ActionGracefulOff); err != nil || r.bench.Powered() {
		t.Errorf("error %v, on: %t", err, r.bench.Powered())
	}
	_ = conn.SetPower(t.Context(), bmc.ActionGracefulOff)
	if r.bench.Powered() {
		t.Error("the button has switched the server on")
	}
}

// TestUnknownResetTypeFallsBack checks that a BMC that refuses a listed reset type as unknown gets
// the next one. After another refusal or a lost answer it does not (I17).
func TestUnknownResetTypeFallsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		fault labbmc.Faults
		posts int
		err   error
	}{
		"no such value":          {labbmc.Faults{Status: 400, MessageID: "Base.1.8.ActionParameterValueNotInList"}, 2, nil},
		"no such parameter":      {labbmc.Faults{Status: 400, MessageID: "ActionParameterNotSupported"}, 2, nil},
		"refused":                {labbmc.Faults{Status: 400}, 1, bmc.ErrNotSupported},
		"refused for the moment": {labbmc.Faults{Status: 400, MessageID: "iLO.2.14.InvalidOperationForSystemState"}, 1, bmc.ErrBusy},
		"not known":              {labbmc.Faults{Status: 501}, 2, nil},
		"busy":                   {labbmc.Faults{Status: 409}, 1, bmc.ErrBusy},
		"broken down":            {labbmc.Faults{Status: 500}, 1, bmc.ErrUnknownOutcome},
		"lost":                   {labbmc.Faults{LoseReply: true}, 1, bmc.ErrUnknownOutcome},
		"forbidden":              {labbmc.Faults{Status: 403}, 1, bmc.ErrUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			var posts atomic.Int32
			tc.fault.Match = func(method, path string) bool {
				return method == "POST" && strings.HasSuffix(path, "ComputerSystem.Reset") && posts.Add(1) == 1
			}
			r.SetFaults(tc.fault)
			if err := conn.SetPower(t.Context(), bmc.ActionOn); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if n := int(posts.Load()); n != tc.posts {
				t.Errorf("%d resets were sent, want %d", n, tc.posts)
			}
		})
	}
}

// TestPowerButtonNeedsFreshState checks that the power button is not pressed for a running server
// that the BMC shows off and that refuses On: it would switch the server off.
func TestPowerButtonNeedsFreshState(t *testing.T) {
	for name, tc := range map[string]struct {
		id      string
		between func(*rig) // changes the server between the read and the refusal
		resets  int
		err     error
	}{
		"refused for the state":                {"iLO.2.14.InvalidOperationForSystemState", nil, 1, bmc.ErrBusy},
		"refused for a reason that is unknown": {"Contoso.1.0.No", nil, 1, bmc.ErrNotSupported},
		"On is unknown, and the server is on by now": {"Base.1.8.ActionParameterValueNotInList", func(r *rig) {
			r.SetFaults(labbmc.Faults{})
		}, 2, bmc.ErrNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *labbmc.Config) { c.Quirks.ResetTypes = []string{"On", "ForceOn", "PushPowerButton"} })
			conn := r.dial(t)
			resets := 0
			refuses := labbmc.Faults{Status: 400, MessageID: tc.id, Match: func(method, path string) bool {
				return method == "POST" && strings.HasSuffix(path, "ComputerSystem.Reset")
			}}
			r.SetFaults(labbmc.Faults{PowerLie: labbmc.Stale}, refuses) // shown off from now on
			if err := r.bench.Power(t.Context(), labbmc.On); err != nil {
				t.Fatal(err)
			}
			if tc.between != nil {
				refuses.Match = func(method, path string) bool {
					if method != "POST" || !strings.HasSuffix(path, "ComputerSystem.Reset") {
						return false
					}
					resets++
					return true
				}
				r.SetFaults(refuses, labbmc.Faults{PowerLie: labbmc.Opposite, Match: func(string, string) bool { return resets == 0 }})
			}
			if err := conn.SetPower(t.Context(), bmc.ActionOn); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if !r.bench.Powered() {
				t.Error("the running server was switched off")
			}
			if n := len(writesOf(r)); n != tc.resets {
				t.Errorf("%d resets were sent, want %d: %v", n, tc.resets, writesOf(r))
			}
		})
	}
}

// TestGracefulActionsStayGraceful checks that only a BMC without a graceful action causes
// ErrNotSupported, after which callers cut the power.
func TestGracefulActionsStayGraceful(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		id     string
		want   error
	}{
		"in POST":           {400, "iLO.2.37.UnableToModifyDuringSystemPOST", bmc.ErrBusy},
		"not in this state": {400, "iLO.2.14.InvalidOperationForSystemState", bmc.ErrBusy},
		"a general error":   {400, "Base.1.0.GeneralError", bmc.ErrProtocol},
		"no text, no ID":    {400, "", bmc.ErrProtocol},
		"no such value":     {400, "Base.1.8.ActionParameterNotSupported", bmc.ErrNotSupported},
		"no such action":    {405, "", bmc.ErrNotSupported},
	} {
		for _, action := range []bmc.PowerAction{bmc.ActionGracefulOff, bmc.ActionGracefulRestart} {
			t.Run(name+" "+string(action), func(t *testing.T) {
				r := newRig(t, nil)
				conn := r.dial(t)
				if err := r.bench.Power(t.Context(), labbmc.On); err != nil {
					t.Fatal(err)
				}
				r.SetFaults(labbmc.Faults{Status: tc.status, MessageID: tc.id, Match: func(method, _ string) bool { return method == "POST" }})
				err := conn.SetPower(t.Context(), action)
				if !errors.Is(err, tc.want) || !errors.Is(tc.want, bmc.ErrNotSupported) && errors.Is(err, bmc.ErrNotSupported) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				if n := len(writesOf(r)); n != 1 {
					t.Errorf("%d resets were sent: %v", n, writesOf(r))
				}
			})
		}
	}
}

// TestRefusedNoop checks that a refused power-off of a server that is off succeeds only after
// certain refusals. A busy or starting BMC may show a running server off, and success fences a
// host (I7).
func TestRefusedNoop(t *testing.T) {
	for status, want := range map[int]error{
		400: nil, 405: nil, 409: nil,
		404: bmc.ErrNotSupported, 422: bmc.ErrNotSupported, 501: bmc.ErrNotSupported,
		423: bmc.ErrBusy, 429: bmc.ErrBusy, 503: bmc.ErrBusy,
		403: bmc.ErrUnauthorized, 500: bmc.ErrUnknownOutcome,
	} {
		t.Run(itoa(status), func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			r.SetFaults(labbmc.Faults{Status: status, Match: func(method, _ string) bool { return method == "POST" }})
			if err := conn.SetPower(t.Context(), bmc.ActionForceOff); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("error %v, want %v", err, want)
			}
		})
	}
}

// TestBootOverrideWrites checks the writes that set a boot override.
func TestBootOverrideWrites(t *testing.T) {
	const sys = "PATCH /redfish/v1/Systems/1"
	once := bmc.BootOverride{Target: bmc.BootPXE}
	bios := bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.ModeBIOS}
	for _, tc := range []struct {
		name     string
		quirks   labbmc.Quirks
		faults   labbmc.Faults
		override bmc.BootOverride
		want     []string
		err      error
	}{
		{"system", labbmc.Quirks{}, labbmc.Faults{}, once, []string{sys + " 204"}, nil},
		{"mode unknown (X10)", labbmc.Quirks{NoBootMode: true}, labbmc.Faults{}, bios, []string{sys + " 400", sys + " 204"}, nil},
		{"mode fixed (iLO 5)", labbmc.Quirks{FixedBootMode: true}, labbmc.Faults{}, bios,
			[]string{sys + " 400", sys + " 204"}, bmc.ErrNotApplied},
		{"settings (iDRAC10)", labbmc.Quirks{BootSettingsURI: true}, labbmc.Faults{}, once,
			[]string{sys + " 400", sys + " 400", sys + "/Settings 204"}, nil},
		{"future state (AMI)", labbmc.Quirks{BootFutureState: true, NeedWholeBoot: true}, labbmc.Faults{}, once,
			[]string{sys + " 400", sys + "/SD 204"}, nil},
		{"not applied", labbmc.Quirks{}, labbmc.Faults{ForgetBoot: true}, once, []string{sys + " 204"}, bmc.ErrNotApplied},
		{"lost reply ends the tries", labbmc.Quirks{}, labbmc.Faults{LoseReply: true, Match: isPatch}, once,
			[]string{sys + " 204"}, bmc.ErrUnknownOutcome},
		{"503 ends the ladder", labbmc.Quirks{}, labbmc.Faults{Status: 503, Match: isPatch}, once, []string{sys + " 503"}, bmc.ErrBusy},
		{"everything refused", labbmc.Quirks{}, labbmc.Faults{Status: 400, Match: isPatch}, once,
			[]string{sys + " 400", sys + " 400"}, bmc.ErrNotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *labbmc.Config) { c.Quirks = tc.quirks })
			conn := r.dial(t)
			r.SetFaults(tc.faults)
			if err := conn.SetBootOverride(t.Context(), tc.override); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			var got []string
			for _, w := range r.Writes() {
				if w.Method == "PATCH" {
					got = append(got, w.Method+" "+w.Path+" "+itoa(w.Status))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func isPatch(method, _ string) bool { return method == "PATCH" }

func TestMACs(t *testing.T) {
	for _, tc := range []struct {
		name   string
		quirks labbmc.Quirks
		macs   []string
		want   []string
	}{
		{"listed, sorted", labbmc.Quirks{}, []string{"52:54:00:00:00:02", "52-54-00-00-00-01"}, []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}},
		{"none are listed", labbmc.Quirks{}, nil, nil},
		{"with the link to the BMC", labbmc.Quirks{BMCInterface: true}, []string{"52:54:00:00:00:01"}, []string{"02:00:5e:00:53:fd", "52:54:00:00:00:01"}},
		{"only the link to the BMC", labbmc.Quirks{NoEthernetInterfaces: true, BMCInterface: true}, []string{"52:54:00:00:00:01"}, nil},
		{"cards elsewhere", labbmc.Quirks{NoEthernetInterfaces: true, BMCInterface: true, NetworkAdapters: true}, []string{"52:54:00:00:00:01"}, []string{"02:00:5e:00:53:fd", "52:54:00:00:00:01"}},
		{"cannot list", labbmc.Quirks{NoEthernetInterfaces: true}, []string{"52:54:00:00:00:01"}, nil},
		{"interfaces without addresses", labbmc.Quirks{}, []string{"", "00:00:00:00:00:00"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *labbmc.Config) { c.Quirks, c.System.MACs = tc.quirks, tc.macs })
			inv, err := r.dial(t).Inventory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, inv.MACs); diff != "" {
				t.Errorf("MACs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSeveralSystems(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) { c.Quirks.Systems = 3 })
	_, err := redfish.Dial(t.Context(), r.target)
	if !errors.Is(err, bmc.ErrAddress) || !strings.Contains(err.Error(), "/redfish/v1/Systems/1, /redfish/v1/Systems/other-1") {
		t.Errorf("error %v, want ErrAddress that lists the systems", err)
	}
	if n := r.Sessions(); n != 0 {
		t.Errorf("%d sessions left open after a failed dial", n)
	}
	r.target.Address += "/redfish/v1/Systems/1"
	if _, err := r.dial(t).PowerState(t.Context()); err != nil {
		t.Errorf("with the path: %v", err)
	}
	r.target.Address += "7"
	if _, err := r.dial(t).PowerState(t.Context()); !errors.Is(err, bmc.ErrAddress) {
		t.Errorf("a system that is not there: %v, want ErrAddress", err)
	}
}
