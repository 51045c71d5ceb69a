// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestVirtualCD checks that an iDRAC boots its virtual drive by its attributes, or by the target
// Cd if it has none. An iDRAC that refuses or forgets them causes an error.
func TestVirtualCD(t *testing.T) {
	once, always := bmc.BootOverride{Target: bmc.BootCD}, bmc.BootOverride{Target: bmc.BootCD, Persistent: true}
	attributes := func(method, path string) bool { return strings.Contains(path, "DellAttributes") }
	writing := func(method, path string) bool { return method == http.MethodPatch && attributes(method, path) }
	for name, tc := range map[string]struct {
		override bmc.BootOverride
		faults   labbmc.Faults
		want     labbmc.Boot
		err      error
	}{
		"once":                      {once, labbmc.Faults{}, labbmc.Boot{Enabled: labbmc.Once, Target: labbmc.TargetCD}, nil},
		"at every boot":             {always, labbmc.Faults{}, labbmc.Boot{Enabled: labbmc.Continuous, Target: labbmc.TargetCD}, nil},
		"no attributes":             {once, labbmc.Faults{Match: attributes, Status: 404}, labbmc.Boot{Enabled: labbmc.Once, Target: labbmc.TargetLocalCD}, nil},
		"attributes without a boot": {once, labbmc.Faults{Match: attributes, Body: `{"Attributes":{"Info.1.ServerGen":"14G"}}`}, labbmc.Boot{Enabled: labbmc.Once, Target: labbmc.TargetLocalCD}, nil},
		"refused":                   {once, labbmc.Faults{Match: writing, Status: 400}, labbmc.Boot{Enabled: labbmc.Disabled, Target: labbmc.TargetNone}, bmc.ErrNotSupported},
		"forgotten":                 {once, labbmc.Faults{Match: writing, ForgetBoot: true}, labbmc.Boot{Enabled: labbmc.Disabled, Target: labbmc.TargetNone}, bmc.ErrNotApplied},
		"not allowed to write":      {once, labbmc.Faults{Match: writing, Status: 403}, labbmc.Boot{Enabled: labbmc.Disabled, Target: labbmc.TargetNone}, bmc.ErrUnauthorized},
		"the wrong mode": {
			bmc.BootOverride{Target: bmc.BootCD, Mode: bmc.ModeBIOS}, labbmc.Faults{}, labbmc.Boot{Enabled: labbmc.Disabled, Target: labbmc.TargetNone}, bmc.ErrNotApplied,
		},
		"the answer is lost": {once, labbmc.Faults{Match: writing, LoseReply: true}, labbmc.Boot{Enabled: labbmc.Once, Target: labbmc.TargetCD}, bmc.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, bmctest.IDRAC9, nil)
			conn := r.dial(t)
			r.SetFaults(tc.faults)
			if err := conn.SetBootOverride(t.Context(), tc.override); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			tc.want.Mode = labbmc.UEFI
			if diff := cmp.Diff(tc.want, r.bench.Boot()); diff != "" {
				t.Errorf("boot (-want +got):\n%s", diff)
			}
			r.SetFaults()
			want := tc.override
			want.Mode = bmc.ModeUEFI
			if tc.want.Enabled == labbmc.Disabled {
				want = bmc.BootOverride{Target: bmc.BootNone, Mode: bmc.ModeUEFI}
			}
			if got, err := conn.BootOverride(t.Context()); err != nil || got != want {
				t.Errorf("read %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// TestVirtualCDIsReplaced checks that another boot override replaces the virtual drive.
func TestVirtualCDIsReplaced(t *testing.T) {
	r := newPersonality(t, bmctest.IDRAC10, nil)
	conn := r.dial(t)
	for _, target := range []bmc.BootTarget{bmc.BootCD, bmc.BootPXE, bmc.BootCD, bmc.BootNone} {
		if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: target}); err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if got, err := conn.BootOverride(t.Context()); err != nil || got.Target != target {
			t.Errorf("%s: read %+v, %v", target, got, err)
		}
	}
}

// TestTransitionalStatesAreOn checks that a server with power is on. OpenBMC shows PoweringOff for
// hours if a shutdown hangs.
func TestTransitionalStatesAreOn(t *testing.T) {
	r := newPersonality(t, bmctest.OpenBMC, nil)
	r.bench.IgnoreShutdown = true
	conn := r.dial(t)
	for _, tc := range []struct {
		action bmc.PowerAction
		want   bmc.PowerState
	}{
		{bmc.ActionOn, bmc.PowerOn}, {bmc.ActionGracefulOff, bmc.PowerOn}, {bmc.ActionForceOff, bmc.PowerOff},
	} {
		if err := conn.SetPower(t.Context(), tc.action); err != nil {
			t.Fatalf("%s: %v", tc.action, err)
		}
		for range 2 {
			if got, err := conn.PowerState(t.Context()); err != nil || got != tc.want {
				t.Errorf("%s: %s, %v, want %s", tc.action, got, err, tc.want)
			}
		}
	}
}
