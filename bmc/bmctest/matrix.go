// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
)

// reportEnv names the directory of the reports: a file per driver and personality, with the
// lines that hack/bmc-matrix.sh reads.
const reportEnv = "INGOT_BMC_REPORT"

// The results of a cell in a report.
const (
	resultPlanned     = "planned"
	resultHolds       = "holds"
	resultUnsupported = "unsupported"
	resultFails       = "fails"
	resultSkipped     = "skipped"
)

// check is one test of a feature, with its own rig.
type check func(t *testing.T, r Rig, conn bmc.Conn)

// Matrix runs every feature of a driver on one personality. A cell that Unsupported returns must
// report ErrNotSupported, and all others must work. It calls newRig for each test.
func Matrix(t *testing.T, driver string, p Personality, newRig func(t *testing.T) Rig) {
	report := newReport(t, driver, p)
	for _, f := range Features() {
		report.add(f, resultPlanned)
	}
	for _, f := range Features() {
		why, lacks := Unsupported(driver, p, f)
		t.Run(string(f), func(t *testing.T) {
			t.Cleanup(func() {
				result := resultHolds
				switch {
				case t.Failed():
					result = resultFails
				case t.Skipped():
					result = resultSkipped
				case lacks:
					result = resultUnsupported
				}
				report.add(f, result)
			})
			if lacks {
				t.Logf("not supported: %s", why)
				withConn(t, newRig(t), func(t *testing.T, r Rig, conn bmc.Conn) { refuses(t, r, conn, f) })
				return
			}
			for i, c := range checks[f] {
				r := newRig(t)
				if better, ok := beyond(f, r.Expect); ok && i == 0 {
					c = better
				} else if (isBlind(r.Expect) || stays(r.Expect)) && CapabilityOf(f) == bmc.CapBootDevice {
					continue // these read the override back
				}
				withConn(t, r, c)
			}
			if f == Power {
				testWrongPassword(t, newRig(t))
			}
		})
	}
}

// beyond returns the test of a feature for a rig with expected values.
func beyond(f Feature, truth Expectations) (check, bool) {
	for _, c := range cells() {
		if c.feature == f && c.has(truth) {
			return c.hold, true
		}
	}
	return nil, false
}

// withConn runs a test with a session. Closing the session must work with a canceled context.
func withConn(t *testing.T, r Rig, test check) {
	t.Helper()
	conn, err := r.Dial(t.Context(), r.Target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		if err := conn.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := r.Server.Sessions(); n != 0 {
			t.Errorf("%d sessions left open", n)
		}
	}()
	test(t, r, conn)
}

// refuses checks that a driver reports a missing capability.
func refuses(t *testing.T, r Rig, conn bmc.Conn, f Feature) {
	err := try(t.Context(), r, conn, f)
	// A BMC that accepts a boot setting and loses it is detected by reading back.
	if !errors.Is(err, bmc.ErrNotSupported) && (CapabilityOf(f) != bmc.CapBootDevice || !errors.Is(err, bmc.ErrNotApplied)) {
		t.Errorf("error %v, want ErrNotSupported", err)
	}
}

// try uses the first call of a feature.
func try(ctx context.Context, r Rig, conn bmc.Conn, f Feature) (err error) {
	switch f {
	case Power:
		_, err = conn.PowerState(ctx)
	case Boot:
		err = conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE})
	case BootMode:
		for _, mode := range []bmc.BootMode{bmc.ModeBIOS, bmc.ModeUEFI} { // some support one of them
			if err = conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE, Mode: mode}); err != nil {
				break
			}
		}
	case BootCD:
		err = conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootCD})
	case BootSetup:
		err = conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootSetup})
	case BootHTTP:
		err = conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootHTTP, HTTPBootURI: bootURI})
	case Inventory:
		_, err = conn.Inventory(ctx)
	case Media:
		_, err = conn.InsertMedia(ctx, bmc.MediaCD, bootURI)
	case Settings:
		_, err = conn.Settings(ctx)
	case Versions:
		_, err = conn.FirmwareInventory(ctx)
	case UpdateURL:
		err = lacksWay(ctx, conn, bmc.Update{URL: bootURI})
	case UpdatePush:
		err = lacksWay(ctx, conn, bmc.Update{Image: strings.NewReader("x"), Size: 1})
	case Health:
		_, err = conn.Health(ctx)
	case EventLog:
		_, err = conn.EventLog(ctx, 1)
	case Console:
		_, err = conn.OpenConsole(ctx)
	case Accounts:
		err = conn.SetPassword(ctx, r.Target.Password+"2")
	case SecureBoot:
		_, err = conn.SecureBoot(ctx)
	case Reset:
		err = conn.ResetBMC(ctx)
	case Indicator:
		// Some accept it and do not report it.
		if err = conn.SetIndicator(ctx, true); err == nil {
			_, err = conn.Indicator(ctx)
		}
	}
	return err
}

// report is the file of one driver and personality; without reportEnv there is none.
type report struct {
	t            *testing.T
	path, prefix string
}

// newReport appends to the report of another run with the same personality.
func newReport(t *testing.T, driver string, p Personality) *report {
	dir := os.Getenv(reportEnv)
	if dir == "" {
		return &report{}
	}
	r := &report{t: t, path: filepath.Join(dir, fmt.Sprintf("%s.%s", driver, p)), prefix: fmt.Sprintf("%s %s", driver, p)}
	return r
}

func (r *report) add(f Feature, result string) {
	if r.path == "" {
		return
	}
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(file, "%s %s %s\n", r.prefix, f, result)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		r.t.Errorf("write report: %v", err)
	}
}

// lacksWay returns the driver's error for an unsupported kind of update, or nil if the BMC
// supports it.
func lacksWay(ctx context.Context, conn bmc.Conn, update bmc.Update) error {
	ways, err := conn.UpdateMethods(ctx)
	if err != nil && !errors.Is(err, bmc.ErrNotSupported) {
		return err
	}
	if ways.Fetch && update.URL != "" || ways.Push && update.Image != nil {
		return nil
	}
	_, err = conn.UpdateFirmware(ctx, update)
	return err
}
