// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ingot-metal/ingot/bmc"
)

// Expectations holds the expected values of optional capabilities. For a field that is set, Matrix
// replaces its own test of the feature.
type Expectations struct {
	// Health is the expected report, with its components in any order.
	Health *bmc.HealthReport
	// AddEvents adds n entries to the log, which is empty before.
	AddEvents func(t *testing.T, n int)
	// Echo means that the serial line echoes its input.
	Echo bool
	// NewPassword is acceptable to the BMC. LongPassword is too long for the protocol; empty:
	// there is no limit.
	NewPassword, LongPassword bmc.Password
	// Reset reports whether the BMC was restarted.
	Reset func() bool
	// Lit reports whether the indicator is on.
	Lit func() bool
	// BMCVersion is the firmware version of the BMC itself.
	BMCVersion string
	// WriteOnlyBoot is set if the boot override can be set but not read.
	WriteOnlyBoot *WriteOnlyBoot
	// OverrideStays means that every boot override holds until the next one is set.
	OverrideStays bool
	// SecureBootAtOnce means that Secure Boot takes effect without a boot.
	SecureBootAtOnce bool
}

// WriteOnlyBoot describes a boot override that can be set but not read: BootOverride returns
// ErrNotSupported, and only the boots of the server show it.
type WriteOnlyBoot struct {
	// Once are the targets for the next boot. Persistent reports whether an override for every
	// boot is possible.
	Once       []bmc.BootTarget
	Persistent bool
	// Mode returns the server's mode for the next boot.
	Mode func() bmc.BootMode
}

// cell is the test of one feature for a rig with expected values.
type cell struct {
	feature Feature
	has     func(b Expectations) bool
	hold    check
}

func cells() []cell {
	return []cell{
		{Health, func(b Expectations) bool { return b.Health != nil }, testHealth},
		{EventLog, func(b Expectations) bool { return b.AddEvents != nil }, testEventLog},
		{Console, func(b Expectations) bool { return b.Echo }, testConsole},
		{Accounts, func(b Expectations) bool { return b.NewPassword != "" }, testAccounts},
		{Reset, func(b Expectations) bool { return b.Reset != nil }, testReset},
		{Indicator, func(b Expectations) bool { return b.Lit != nil }, testIndicator},
		{Versions, func(b Expectations) bool { return b.BMCVersion != "" }, testVersions},
		{Boot, isBlind, testBlindBoot},
		{BootMode, isBlind, testBlindMode},
		{BootCD, isBlind, testBlindTarget(bmc.BootCD)},
		{BootSetup, isBlind, testBlindTarget(bmc.BootSetup)},
		{Boot, stays, testStayingBoot},
		{BootMode, stays, testStayingMode},
		{BootCD, stays, testStayingTarget(bmc.BootCD)},
		{BootSetup, stays, testStayingTarget(bmc.BootSetup)},
	}
}

func testHealth(t *testing.T, r Rig, conn bmc.Conn) {
	for range 2 { // the second reading may use cached records
		got, err := conn.Health(t.Context())
		must(t, err)
		byName := cmpopts.SortSlices(func(a, b bmc.ComponentHealth) bool { return a.Kind+a.Name < b.Kind+b.Name })
		if diff := cmp.Diff(*r.Expect.Health, got, byName); diff != "" {
			t.Errorf("health (-want +got):\n%s", diff)
		}
	}
}

func testEventLog(t *testing.T, r Rig, conn bmc.Conn) {
	wantLog := func(limit, n int) {
		t.Helper()
		log, err := conn.EventLog(t.Context(), limit)
		must(t, err)
		if len(log) != n {
			t.Errorf("%d entries, want %d: %v", len(log), n, log)
		}
		seen := map[string]bool{}
		for i, e := range log {
			if seen[e.ID] || e.Message == "" || (i > 0 && e.Created.After(log[i-1].Created)) {
				t.Errorf("entry %d: repeated, empty, or newer than the one before: %+v", i, e)
			}
			seen[e.ID] = true
		}
	}
	wantLog(10, 0)
	r.Expect.AddEvents(t, 5)
	wantLog(10, 5)
	wantLog(2, 2)
	wantLog(0, 0)
	must(t, conn.ClearEventLog(t.Context()))
	wantLog(10, 0)
}

// testConsole uses an echoing line. The connection stays usable meanwhile, and the stream ends
// with Close and with its context.
func testConsole(t *testing.T, r Rig, conn bmc.Conn) {
	for _, ends := range []string{"close", "context"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := conn.OpenConsole(ctx)
		must(t, err)
		text := make([]byte, 3000)
		for i := range text {
			text[i] = 'a' + byte(i%26)
		}
		got := make(chan []byte, 1)
		go func() {
			p := make([]byte, len(text))
			n, _ := io.ReadFull(stream, p)
			got <- p[:n]
		}()
		if _, err := stream.Write(text); err != nil {
			t.Fatalf("write: %v", err)
		}
		if diff := cmp.Diff(string(text), string(<-got)); diff != "" {
			t.Errorf("console (-want +got):\n%s", diff)
		}
		if _, err := conn.PowerState(t.Context()); err != nil {
			t.Errorf("PowerState with an open console: %v", err)
		}
		if ends == "close" {
			must(t, stream.Close())
			continue
		}
		cancel()
		if _, err := io.ReadAll(stream); err == nil {
			t.Error("the stream of a context that has ended reads on")
		}
		must(t, stream.Close())
	}
}

func testAccounts(t *testing.T, r Rig, conn bmc.Conn) {
	if long := r.Expect.LongPassword; long != "" {
		if err := conn.SetPassword(t.Context(), long); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("a password that is too long: %v, want ErrNotSupported", err)
		}
	}
	must(t, conn.SetPassword(t.Context(), r.Expect.NewPassword))
	if _, err := conn.PowerState(t.Context()); err != nil {
		t.Errorf("after the change: %v", err)
	}
	old := r.Target
	r.Target.Password = r.Expect.NewPassword
	again, err := r.Dial(t.Context(), r.Target)
	must(t, err)
	must(t, again.Close(t.Context()))
	r.Target.Password = "neither" // any other password is refused
	for _, target := range []bmc.Target{old, r.Target} {
		refusedCredentials(t, r.Dial, target)
	}
}

// testReset restarts the BMC but not the server. The connection, or a new one, works again.
func testReset(t *testing.T, r Rig, conn bmc.Conn) {
	must(t, conn.SetPower(t.Context(), bmc.ActionOn))
	boots := len(r.Server.Boots())
	must(t, conn.ResetBMC(t.Context()))
	if !r.Expect.Reset() {
		t.Error("the BMC was not restarted")
	}
	if !r.Server.Powered() || len(r.Server.Boots()) != boots {
		t.Error("the server was restarted with its BMC")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		state, err := conn.PowerState(ctx)
		if err == nil && state == bmc.PowerOn {
			return
		}
		if errors.Is(err, bmc.ErrUnauthorized) { // a forgotten session
			again, err := r.Dial(ctx, r.Target)
			must(t, err)
			must(t, again.Close(ctx))
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the BMC does not come back: %s, %v", state, err)
		}
	}
}

func testIndicator(t *testing.T, r Rig, conn bmc.Conn) {
	for _, lit := range []bool{true, true, false} {
		must(t, conn.SetIndicator(t.Context(), lit))
		got, err := conn.Indicator(t.Context())
		must(t, err)
		if got != lit || r.Expect.Lit() != lit {
			t.Errorf("indicator reads %v, is %v, want %v", got, r.Expect.Lit(), lit)
		}
	}
}

func testVersions(t *testing.T, r Rig, conn bmc.Conn) {
	items, err := conn.FirmwareInventory(t.Context())
	must(t, err)
	for _, item := range items {
		if item.Version == r.Expect.BMCVersion {
			return
		}
	}
	t.Errorf("no firmware has the version %s of the BMC: %+v", r.Expect.BMCVersion, items)
}
