// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	bootURI = "http://192.0.2.7:8080/boot/image.iso"
	// imageURI uses https, which all media slots accept: OpenBMC refuses http.
	imageURI = "https://192.0.2.7:8443/boot/image.iso"
	// timeout bounds the BMC's own activities.
	timeout = 10 * time.Second
)

// checks are the default tests of each feature; see Beyond.
var checks = map[Feature][]check{
	Power:      {testPower, testRestart, testVitals},
	Boot:       {testBootOnce, testBootPersistent},
	BootMode:   {testBootMode},
	BootCD:     {testBootFrom(bmc.BootOverride{Target: bmc.BootCD})},
	BootSetup:  {testBootFrom(bmc.BootOverride{Target: bmc.BootSetup})},
	BootHTTP:   {testBootFrom(bmc.BootOverride{Target: bmc.BootHTTP, HTTPBootURI: bootURI}), testBootFrom(bmc.BootOverride{Target: bmc.BootHTTP})},
	Inventory:  {testInventory},
	Media:      {testMedia},
	Settings:   {testSettings, testSettingsRefused},
	Versions:   {checkVersions},
	UpdateURL:  {testUpdateURL},
	UpdatePush: {testUpdatePush},
	Health:     {checkHealth},
	EventLog:   {checkEventLog},
	Console:    {checkConsole},
	Accounts:   {checkAccounts},
	SecureBoot: {testSecureBoot},
	Reset:      {checkReset},
	Indicator:  {checkIndicator},
}

// whileBusy repeats a call while the BMC is busy, like the controllers do. An emulated BMC
// counts the calls, not the time.
func whileBusy(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for range 8 {
		if err = f(); !errors.Is(err, bmc.ErrBusy) {
			break
		}
	}
	must(t, err)
}

func setPower(t *testing.T, conn bmc.Conn, action bmc.PowerAction) {
	t.Helper()
	whileBusy(t, func() error { return conn.SetPower(t.Context(), action) })
}

func setBoot(t *testing.T, conn bmc.Conn, o bmc.BootOverride) {
	t.Helper()
	whileBusy(t, func() error { return conn.SetBootOverride(t.Context(), o) })
}

func testBootFrom(o bmc.BootOverride) check {
	return func(t *testing.T, r Rig, conn bmc.Conn) {
		setBoot(t, conn, o)
		wantOverride(t, conn, o)
		setPower(t, conn, bmc.ActionOn)
		if diff := cmp.Diff([]bmc.BootTarget{o.Target}, r.Server.Boots()); diff != "" {
			t.Errorf("boots (-want +got):\n%s", diff)
		}
	}
}

func testMedia(t *testing.T, _ Rig, conn bmc.Conn) {
	inserted := func() []string {
		slots, err := conn.MediaSlots(t.Context())
		must(t, err)
		var images []string
		for _, s := range slots {
			if s.Inserted {
				images = append(images, s.Image)
			} else if s.Image != "" {
				t.Errorf("slot %s shows %s and nothing inserted", s.ID, s.Image)
			}
		}
		return images
	}
	want := func(step string, images ...string) {
		t.Helper()
		if diff := cmp.Diff(images, inserted()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	want("at first")
	var slot bmc.MediaSlot
	for _, image := range []string{imageURI, imageURI + ".2", imageURI + ".2"} { // another image, and the same one again
		var err error
		slot, err = conn.InsertMedia(t.Context(), bmc.MediaCD, image)
		must(t, err)
		if !slot.Inserted || slot.Image != image {
			t.Errorf("slot %+v, want %s", slot, image)
		}
		want("inserted", image)
	}
	for range 2 { // an empty slot is no error
		must(t, conn.EjectMedia(t.Context(), slot.ID))
		want("ejected")
	}
	if err := conn.EjectMedia(t.Context(), slot.ID+"-none"); !errors.Is(err, bmc.ErrNotSupported) {
		t.Errorf("a slot that is not there: %v", err)
	}
}

// change returns another value for a setting than the one in force.
func change(s bmc.SettingSchema, now bmc.Value) (bmc.Value, bool) {
	v := bmc.Value{Kind: now.Kind}
	switch s.Kind {
	case bmc.ValueEnumeration:
		i := slices.IndexFunc(s.Choices, func(c string) bool { return c != now.Text })
		if i < 0 {
			return v, false
		}
		v.Text = s.Choices[i]
	case bmc.ValueInteger:
		if v.Int = now.Int + 1; s.Max != nil && v.Int > *s.Max {
			v.Int = now.Int - 1
		}
	case bmc.ValueBoolean:
		v.Bool = !now.Bool
	default:
		v.Text = now.Text + "x"
	}
	return v, true
}

// testSettings changes one setting of each kind, except how the machine boots.
func testSettings(t *testing.T, _ Rig, conn bmc.Conn) {
	before, err := conn.Settings(t.Context())
	must(t, err)
	schemas, err := conn.SettingSchemas(t.Context())
	must(t, err)
	wanted, texts := map[string]bmc.Value{}, map[string]string{}
	kinds := map[bmc.ValueKind]bool{}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name]
		if s.ReadOnly || kinds[s.Kind] || name == "BootMode" || name == "SecureBoot" {
			continue
		}
		if v, ok := change(s, before[name]); ok {
			wanted[name], texts[name], kinds[s.Kind] = v, v.String(), true
		}
	}
	if len(kinds) < 4 {
		t.Errorf("settings of the kinds %v, want all four", kinds)
	}
	whileBusy(t, func() error { return conn.SetSettings(t.Context(), texts) })
	pending, err := conn.PendingSettings(t.Context())
	must(t, err)
	if diff := cmp.Diff(wanted, pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	must(t, conn.SetSettings(t.Context(), texts)) // already pending
	setPower(t, conn, bmc.ActionOn)
	after := maps.Clone(before)
	maps.Copy(after, wanted)
	wantSettings(t, conn, "after the boot", after)
	must(t, conn.ResetSettings(t.Context()))
	setPower(t, conn, bmc.ActionForceRestart)
	wantSettings(t, conn, "after the reset", before)
}

func wantSettings(t *testing.T, conn bmc.Conn, when string, want map[string]bmc.Value) {
	t.Helper()
	got, err := conn.Settings(t.Context())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
	pending, err := conn.PendingSettings(t.Context())
	must(t, err)
	if len(pending) != 0 {
		t.Errorf("%s: %v pending", when, pending)
	}
}

// testSettingsRefused shows that an invalid setting is reported and nothing is written.
func testSettingsRefused(t *testing.T, r Rig, conn bmc.Conn) {
	schemas, err := conn.SettingSchemas(t.Context())
	must(t, err)
	good := map[string]string{}
	bad := map[string]string{"NoSuchSetting": "1"}
	now, err := conn.Settings(t.Context())
	must(t, err)
	for name, s := range schemas {
		switch {
		case s.ReadOnly:
			bad[name] = now[name].String()
		case s.Kind == bmc.ValueEnumeration, s.Kind == bmc.ValueInteger, s.Kind == bmc.ValueBoolean:
			bad[name] = "levitate"
			if v, ok := change(s, now[name]); ok {
				good[name] = v.String()
			}
		}
	}
	writes := r.Server.Writes()
	for name, text := range bad {
		wanted := maps.Clone(good)
		wanted[name] = text
		var refused *bmc.SettingError
		if err := conn.SetSettings(t.Context(), wanted); !errors.As(err, &refused) || refused.Name != name {
			t.Errorf("%s=%s: %v, want a SettingError", name, text, err)
		}
	}
	if n := r.Server.Writes(); n != writes {
		t.Errorf("%d writes for settings that were refused", n-writes)
	}
}

func checkVersions(t *testing.T, _ Rig, conn bmc.Conn) {
	items, err := conn.FirmwareInventory(t.Context())
	must(t, err)
	if len(items) < 2 {
		t.Errorf("%d items", len(items))
	}
	for _, i := range items {
		if i.ID == "" || i.Name == "" || i.Version == "" {
			t.Errorf("incomplete: %+v", i)
		}
	}
	if !slices.IsSortedFunc(items, func(a, b bmc.FirmwareItem) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("not sorted by ID")
	}
}

func testUpdateURL(t *testing.T, r Rig, conn bmc.Conn) {
	ways, err := conn.UpdateMethods(t.Context())
	must(t, err)
	if !ways.Fetch || len(ways.Protocols) > 0 && !slices.Contains(ways.Protocols, "HTTP") {
		t.Errorf("the BMC does not report fetching over HTTP: %+v", ways)
	}
	url, version := r.Server.FirmwareURL(t)
	follow(t, conn, version, func() (bmc.Task, error) {
		return conn.UpdateFirmware(t.Context(), bmc.Update{URL: url})
	})
}

func testUpdatePush(t *testing.T, r Rig, conn bmc.Conn) {
	ways, err := conn.UpdateMethods(t.Context())
	must(t, err)
	if !ways.Push {
		t.Errorf("the BMC does not report push: %+v", ways)
	}
	image, size, version := r.Server.FirmwareImage(t)
	follow(t, conn, version, func() (bmc.Task, error) {
		return conn.UpdateFirmware(t.Context(), bmc.Update{Image: image, Size: size, Filename: "bios.bin"})
	})
}

// follow starts an update and follows it until the inventory shows the version. It restarts the
// server if the task waits for that.
func follow(t *testing.T, conn bmc.Conn, version string, start func() (bmc.Task, error)) {
	t.Helper()
	setPower(t, conn, bmc.ActionOn)
	task, err := start()
	must(t, err)
	deadline, last := time.Now().Add(timeout), task.Percent
	for task.ID != "" && (task.State == bmc.TaskRunning) {
		if time.Now().After(deadline) {
			t.Fatalf("task still %+v", task)
		}
		task, err = conn.Task(t.Context(), task.ID)
		must(t, err)
		// Dell's scheduled job starts again at 0 %.
		if task.Percent < last && task.Percent >= 0 && task.State == bmc.TaskRunning {
			t.Errorf("task went back from %d to %d %%", last, task.Percent)
		}
		last = max(last, task.Percent)
	}
	if task.State == bmc.TaskFailed {
		t.Fatalf("task failed: %s", task.Message)
	}
	if task.State == bmc.TaskWaitsForReset {
		setPower(t, conn, bmc.ActionForceRestart)
	}
	for {
		items, err := conn.FirmwareInventory(t.Context())
		must(t, err)
		if slices.ContainsFunc(items, func(i bmc.FirmwareItem) bool { return i.Version == version }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("version %s never shows: %+v", version, items)
		}
		if task.ID == "" { // the BMC does not report that a restart is needed
			setPower(t, conn, bmc.ActionForceRestart)
		}
	}
}

func checkHealth(t *testing.T, _ Rig, conn bmc.Conn) {
	report, err := conn.Health(t.Context())
	must(t, err)
	if report.Overall != bmc.HealthOK {
		t.Errorf("overall %s", report.Overall)
	}
	if len(report.Components) == 0 {
		t.Error("no components")
	}
	for _, c := range report.Components {
		if c.Kind == "" || c.Name == "" || c.State != bmc.HealthOK {
			t.Errorf("component %+v", c)
		}
	}
}

func checkEventLog(t *testing.T, _ Rig, conn bmc.Conn) {
	for range 3 { // creates entries
		setPower(t, conn, bmc.ActionOn)
		setPower(t, conn, bmc.ActionForceOff)
	}
	all, err := conn.EventLog(t.Context(), 1000)
	must(t, err)
	if len(all) < 4 {
		t.Fatalf("%d entries", len(all))
	}
	if !slices.IsSortedFunc(all, func(a, b bmc.LogEntry) int { return b.Created.Compare(a.Created) }) {
		t.Error("not the newest first")
	}
	for _, e := range all {
		if e.ID == "" || e.Message == "" {
			t.Errorf("incomplete: %+v", e)
		}
	}
	newest, err := conn.EventLog(t.Context(), 2)
	must(t, err)
	if diff := cmp.Diff(all[:2], newest); diff != "" {
		t.Errorf("the newest two (-want +got):\n%s", diff)
	}
	must(t, conn.ClearEventLog(t.Context()))
	left, err := conn.EventLog(t.Context(), 1000)
	must(t, err)
	if len(left) > 1 { // some BMCs log the clearing
		t.Errorf("%d entries after the clearing", len(left))
	}
}

// checkConsole checks both directions of the console.
func checkConsole(t *testing.T, r Rig, conn bmc.Conn) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	stream, err := conn.OpenConsole(ctx)
	must(t, err)
	defer func() { _ = stream.Close() }()
	if err := r.Server.Console(ctx, stream); err != nil {
		t.Errorf("console: %v", err)
	}
}

func checkAccounts(t *testing.T, r Rig, conn bmc.Conn) {
	changed := r.Target
	changed.Password = "An0ther-Pa55"
	must(t, conn.SetPassword(t.Context(), changed.Password))
	fresh, err := r.Dial(t.Context(), changed)
	must(t, err)
	_, err = fresh.PowerState(t.Context())
	must(t, err)
	must(t, fresh.Close(t.Context()))
	refusedCredentials(t, r.Dial, r.Target)
}

func testSecureBoot(t *testing.T, r Rig, conn bmc.Conn) {
	for i, enabled := range []bool{true, false, false} {
		before, err := conn.SecureBoot(t.Context())
		must(t, err)
		whileBusy(t, func() error { return conn.SetSecureBoot(t.Context(), enabled) })
		want := bmc.SecureBootState{Enabled: enabled, Active: before.Active, Mode: before.Mode, Setting: before.Setting}
		if r.Expect.SecureBootAtOnce {
			want.Active = enabled
		}
		for range 2 {
			got, err := conn.SecureBoot(t.Context())
			must(t, err)
			if got != want {
				t.Errorf("step %d: %+v, want %+v", i, got, want)
			}
			setPower(t, conn, bmc.ActionForceOff)
			setPower(t, conn, bmc.ActionOn)
			want.Active = enabled
		}
	}
}

// checkReset shows that the BMC restarts and the server does not.
func checkReset(t *testing.T, r Rig, conn bmc.Conn) {
	setPower(t, conn, bmc.ActionOn)
	boots := len(r.Server.Boots())
	if err := conn.ResetBMC(t.Context()); err != nil && !errors.Is(err, bmc.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	// A restart drops the sessions. Without sessions, the BMC was away and is back.
	deadline := time.Now().Add(timeout)
	for away := false; ; {
		_, err := conn.PowerState(t.Context())
		if errors.Is(err, bmc.ErrUnauthorized) || away && err == nil {
			break
		}
		away = away || err != nil
		if time.Now().After(deadline) {
			t.Fatalf("the BMC did not restart: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	fresh, err := r.Dial(t.Context(), r.Target)
	must(t, err)
	state, err := fresh.PowerState(t.Context())
	must(t, err)
	if state != bmc.PowerOn {
		t.Errorf("power %s after the BMC's restart", state)
	}
	must(t, fresh.Close(t.Context()))
	if n := len(r.Server.Boots()); n != boots || !r.Server.Powered() {
		t.Errorf("the server booted %d times more, powered %v", n-boots, r.Server.Powered())
	}
}

func checkIndicator(t *testing.T, _ Rig, conn bmc.Conn) {
	for _, lit := range []bool{true, true, false} {
		must(t, conn.SetIndicator(t.Context(), lit))
		got, err := conn.Indicator(t.Context())
		must(t, err)
		if got != lit {
			t.Errorf("lit %v, want %v", got, lit)
		}
	}
}

// NoExtras implements Extras for Servers that lack them.
type NoExtras struct{}

func (NoExtras) Writes() int { return 0 }

func (NoExtras) FirmwareURL(t *testing.T) (url, version string) {
	t.Fatal("the rig has no firmware to fetch")
	return "", ""
}

func (NoExtras) FirmwareImage(t *testing.T) (image io.Reader, size int64, version string) {
	t.Fatal("the rig has no firmware to push")
	return nil, 0, ""
}

func (NoExtras) Console(context.Context, io.ReadWriter) error {
	return errors.New("the rig has no console")
}
