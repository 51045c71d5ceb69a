// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestPasswordPolicy checks that a refused password is reported with the BMC's reason and without
// the password, and differs from a BMC that takes no passwords.
func TestPasswordPolicy(t *testing.T) {
	const wrong = "without-any-number"
	for name, tc := range map[string]struct {
		faults  labbmc.Faults
		refused bool
		says    string
	}{
		"policy":       {labbmc.Faults{}, true, "it has no digit"},
		"no passwords": {labbmc.Faults{Status: 405, Match: isPatch}, false, "not supported"},
		"busy":         {labbmc.Faults{Status: 503, Match: isPatch}, false, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNamed(t, "openbmc", func(c *labbmc.Config) { c.Personality.Quirks.PasswordPolicy = true })
			r.SetFaults(tc.faults)
			err := r.dial(t).SetPassword(t.Context(), wrong)
			if errors.Is(err, bmc.ErrPasswordRefused) != tc.refused || errors.Is(err, bmc.ErrNotApplied) != tc.refused {
				t.Errorf("error %v, want a refusal: %t", err, tc.refused)
			}
			if tc.refused == errors.Is(err, bmc.ErrNotSupported) && name != "busy" {
				t.Errorf("error %v says that the BMC takes no passwords", err)
			}
			if text := err.Error(); !strings.Contains(text, tc.says) || strings.Contains(text, wrong) || strings.Contains(text, canary) {
				t.Errorf("error %q, want %q in it and no password", text, tc.says)
			}
			if r.Password() != canary {
				t.Error("the password has changed")
			}
		})
	}
}

// TestMissingSystem checks that a missing system is ErrBusy if the BMC has none yet, and
// ErrAddress if it has others.
func TestMissingSystem(t *testing.T) {
	const systems = "/redfish/v1/Systems"
	none := labbmc.Faults{Body: `{"Members":[]}`, Match: func(_, path string) bool { return path == systems }}
	missing := labbmc.Faults{Status: 404, Match: func(_, path string) bool { return strings.HasPrefix(path, systems+"/") }}
	noList := labbmc.Faults{Status: 404, Match: func(_, path string) bool { return path == systems }}
	for name, tc := range map[string]struct {
		path   string
		faults []labbmc.Faults
		want   error
	}{
		"lists none":                    {"", []labbmc.Faults{none}, bmc.ErrBusy},
		"lists none, one is named":      {systems + "/1", []labbmc.Faults{none, missing}, bmc.ErrBusy},
		"has no list, one is named":     {systems + "/1", []labbmc.Faults{noList, missing}, bmc.ErrBusy},
		"lists what it does not show":   {"", []labbmc.Faults{missing}, bmc.ErrBusy},
		"shows another than the one":    {systems + "/7", nil, bmc.ErrAddress},
		"the list is not to be had now": {systems + "/1", []labbmc.Faults{{Status: 503, Match: noList.Match}, missing}, bmc.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.SetFaults(tc.faults...)
			target := r.target
			target.Address += tc.path
			pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
			defer closePool(t, pool)
			err := pool.Do(t.Context(), target, readState)
			if !errors.Is(err, tc.want) || errors.Is(tc.want, bmc.ErrBusy) && errors.Is(err, bmc.ErrAddress) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if !errors.Is(tc.want, bmc.ErrBusy) {
				return
			}
			r.SetFaults()
			if err := pool.Do(t.Context(), target, readState); err != nil {
				t.Errorf("when it has its system: %v", err)
			}
		})
	}
}

// TestTemperatures checks that a chassis without Thermal has the temperatures of ThermalMetrics,
// with the health of their sensors.
func TestTemperatures(t *testing.T) {
	for name, change := range map[string]func(*labbmc.Config){
		"list": func(*labbmc.Config) {}, "summary": func(c *labbmc.Config) { c.Personality.Quirks.SummaryOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newNamed(t, "dell-idrac10", change)
			r.SetHealth("Inlet", "Critical")
			conn := r.dial(t)
			inlet := func() bmc.ComponentHealth {
				report, err := conn.Health(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(report.Components, func(c bmc.ComponentHealth) bool { return c.Kind == "Temperature" })
				if i < 0 {
					t.Fatalf("no temperature in %+v", report.Components)
				}
				return report.Components[i]
			}
			if got, want := inlet(), (bmc.ComponentHealth{Kind: "Temperature", Name: "Inlet", State: bmc.HealthCritical, Reading: "24 °C"}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			r.SetFaults(labbmc.Faults{Status: 404, Match: func(_, path string) bool { return strings.Contains(path, "/Sensors/") }})
			if got := inlet(); got.Reading != "24 °C" || got.State != bmc.HealthUnknown {
				t.Errorf("without its sensor: %+v", got)
			}
		})
	}
}

// TestHealthOfManySensors checks that a thousand temperatures cost a bounded number of requests,
// and that fans and power supplies are complete.
func TestHealthOfManySensors(t *testing.T) {
	r := newNamed(t, "dell-idrac10", nil)
	var many strings.Builder
	for range 1000 {
		many.WriteString(`{"Reading":30,"DeviceName":"T","DataSourceUri":"` + r.SystemPath() + `"},`)
	}
	r.SetFaults(labbmc.Faults{
		Body:  `{"TemperatureReadingsCelsius":[` + strings.TrimSuffix(many.String(), ",") + `]}`,
		Match: func(_, path string) bool { return strings.HasSuffix(path, "/ThermalMetrics") },
	})
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	defer closePool(t, pool)
	before := r.Reads()
	var report bmc.HealthReport
	if err := pool.Do(t.Context(), r.target, func(ctx context.Context, c bmc.Conn) (err error) {
		report, err = c.Health(ctx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, c := range report.Components {
		kinds[c.Kind]++
	}
	if n := r.Reads() - before; n > 85 || kinds["Fan"] != 2 || kinds["PowerSupply"] != 2 || kinds["Temperature"] < 100 || len(report.Components) > 500 {
		t.Errorf("%d requests, %d components: %v", n, len(report.Components), kinds)
	}
}

// TestMemoryIsNotANumber checks that a system with an unreadable memory size can be read and
// switched.
func TestMemoryIsNotANumber(t *testing.T) {
	for name, tc := range map[string]struct {
		shown string
		want  int64
	}{
		"number": {`64`, 64 << 30}, "fraction": {`0.5`, 1 << 29}, "text": {`"N/A"`, 0}, "number as text": {`"64"`, 0},
		"null": {`null`, 0}, "object": {`{}`, 0}, "too much": {`1e300`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			path := r.SystemPath()
			r.SetFaults(labbmc.Faults{
				Body: `{"@odata.id":"` + path + `","SerialNumber":"S1","PowerState":"On","ProcessorSummary":{"CoreCount":4},` +
					`"MemorySummary":{"TotalSystemMemoryGiB":` + tc.shown + `}}`,
				Match: func(_, asked string) bool { return asked == path },
			})
			conn := r.dial(t)
			inv, err := conn.Inventory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if inv.MemoryBytes != tc.want || inv.Identity.Serial != "S1" || inv.Cores != 4 {
				t.Errorf("%+v, want memory %d, serial S1 and 4 cores", inv, tc.want)
			}
			if state, err := conn.PowerState(t.Context()); state != bmc.PowerOn || err != nil {
				t.Errorf("power %q, %v", state, err)
			}
		})
	}
}
