// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// shelf is a BMC with a firmware inventory.
type shelf struct {
	bmc.Conn
	settings, pending map[string]bmc.Value
	items             []bmc.FirmwareItem
	ways              bmc.UpdateMethods
	err               error
}

func (s *shelf) Settings(context.Context) (map[string]bmc.Value, error) { return s.settings, s.err }
func (s *shelf) PendingSettings(context.Context) (map[string]bmc.Value, error) {
	return s.pending, s.err
}
func (s *shelf) FirmwareInventory(context.Context) ([]bmc.FirmwareItem, error) { return s.items, s.err }

func (s *shelf) UpdateMethods(context.Context) (bmc.UpdateMethods, error) { return s.ways, nil }

func text(value string) bmc.Value   { return bmc.Value{Kind: bmc.ValueString, Text: value} }
func integer(value int64) bmc.Value { return bmc.Value{Kind: bmc.ValueInteger, Int: value} }

// A setting is met by the same value, in any notation.
func TestIsValue(t *testing.T) {
	for _, tc := range []struct {
		text  string
		value bmc.Value
		want  bool
	}{
		{"Enabled", text("Enabled"), true},
		{"enabled", text("Enabled"), false},
		{"120", integer(120), true},
		{"0120", integer(120), true},
		{"0120", text("120"), false},
		{"many", integer(0), false},
		{"True", bmc.Value{Kind: bmc.ValueBoolean, Bool: true}, true},
		{"0", bmc.Value{Kind: bmc.ValueBoolean}, true},
		{"no", bmc.Value{Kind: bmc.ValueBoolean}, false},
	} {
		if got := isValue(tc.text, tc.value); got != tc.want {
			t.Errorf("%q is %+v: %t", tc.text, tc.value, got)
		}
	}
}

func TestReadFirmware(t *testing.T) {
	const root = "/redfish/v1/UpdateService/FirmwareInventory/"
	dell := []bmc.FirmwareItem{
		{ID: root + "Previous-159-2.18.0__BIOS.Setup.1-1", Name: "BIOS", Version: "2.18.0"},
		{ID: root + "Installed-159-2.19.1__BIOS.Setup.1-1", Name: "BIOS", Version: "2.19.1"},
		{ID: root + "Available-159-2.20.0__BIOS.Setup.1-1", Name: "BIOS", Version: "2.20.0"},
		{ID: root + "Installed-1-1.0__NIC.1-1", Name: "NIC", Version: "1.0"},
		{ID: root + "Installed-1-1.1__NIC.1-2", Name: "NIC", Version: "1.1"},
		{ID: root + "Current-2-18.5.17__NIC.Integrated.1-1-1", Name: "rNDC", Version: "18.5.17"},
		{ID: root + "Installed-2-19.5.12__NIC.Integrated.1-1-1", Name: "rNDC", Version: "19.5.12"},
		{ID: root + "Current-3-7.0__Lifecycle", Name: "Lifecycle", Version: "7.0"},
	}
	firmware := func(components ...string) *infrav1.IngotHost {
		h := &infrav1.IngotHost{}
		for _, c := range components {
			h.Spec.Firmware = append(h.Spec.Firmware, infrav1.FirmwareComponent{Component: c, Version: "v"})
		}
		return h
	}
	settings := func(wanted map[string]string) *infrav1.IngotHost {
		h := &infrav1.IngotHost{}
		h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: wanted}
		return h
	}
	preparer := &Preparer{Stable: strings.TrimSpace}
	updating := firmware()
	updating.Spec.Record = &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{Component: "Gone", Version: "2"}}}
	for _, tc := range []struct {
		name     string
		shelf    *shelf
		host     *infrav1.IngotHost
		versions map[string]string
		settings []lifecycle.SettingReading
		refused  string // a part of it
	}{
		{"what is installed, of all that Dell lists", &shelf{items: dell}, firmware("BIOS"), map[string]string{"BIOS": "2.19.1"}, nil, ""},
		{"what is installed, of what runs until the next start", &shelf{items: dell}, firmware("rNDC"), map[string]string{"rNDC": "19.5.12"}, nil, ""},
		{"what runs, where nothing else is told", &shelf{items: dell}, firmware("Lifecycle"), map[string]string{"Lifecycle": "7.0"}, nil, ""},
		{"several of one name", &shelf{items: dell}, firmware("NIC"), nil, nil, `with versions 1.0, 1.1; name one of "NIC.1-1", "NIC.1-2"`},
		{"one of them, whatever its version", &shelf{items: dell}, firmware("NIC.1-2"), map[string]string{"NIC.1-2": "1.1"}, nil, ""},
		{"one of them", &shelf{items: dell}, firmware("installed-1-1.1__nic.1-2"), map[string]string{"installed-1-1.1__nic.1-2": "1.1"}, nil, ""},
		{"one by two names", &shelf{items: dell}, firmware("BIOS", "Installed-159-2.19.1__BIOS.Setup.1-1"),
			map[string]string{"BIOS": "2.19.1", "Installed-159-2.19.1__BIOS.Setup.1-1": "2.19.1"}, nil, "are the same firmware"},
		{"none of the name", &shelf{items: dell}, firmware("Toaster"), nil, nil, `it has "BIOS", "NIC", "rNDC", "Lifecycle"`},
		{"none at all", &shelf{}, firmware("BIOS"), nil, nil, "it has none"},
		{"no firmware to be told", &shelf{err: fmt.Errorf("%w: none", bmc.ErrNotSupported)}, firmware("BIOS"), nil, nil, "does not report its firmware"},
		{"an update of what is not told now", &shelf{items: dell}, updating, nil, nil, ""},
		{"settings", &shelf{settings: map[string]bmc.Value{"A": text("x"), "B": integer(1), "C": text("c")}, pending: map[string]bmc.Value{"B": integer(2), "C": text("d")}},
			settings(map[string]string{"A": "x", "B": "2", "C": "c"}), nil, []lifecycle.SettingReading{
				{Name: "A", Wanted: "x", Value: "x", InForce: true, Next: true},
				{Name: "B", Wanted: "2", Value: "1", Pending: "2", Next: true},
				{Name: "C", Wanted: "c", Value: "c", Pending: "d", InForce: true},
			}, ""},
		{"a setting in another case", &shelf{settings: map[string]bmc.Value{"LogicalProc": text("x")}}, settings(map[string]string{"logicalproc": "x"}), nil, nil, `did you mean "LogicalProc"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := preparer.read(t.Context(), tc.shelf, tc.host)
			if err != nil {
				t.Fatal(err)
			}
			if tc.versions == nil {
				tc.versions = map[string]string{}
			}
			if diff := cmp.Diff(tc.versions, got.Versions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.settings, got.Settings); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if (tc.refused == "") != (got.Refused == "") || !strings.Contains(got.Refused, tc.refused) || (got.Refused == "") != (got.RefusedReason == "") {
				t.Errorf("refused with %q: %q, want %q", got.RefusedReason, got.Refused, tc.refused)
			}
		})
	}
	if _, err := preparer.read(t.Context(), &shelf{err: bmc.ErrBusy}, firmware("BIOS")); !errors.Is(err, bmc.ErrBusy) {
		t.Errorf("a busy BMC: %v", err)
	}
}

// bench is a shelf whose items can be read one by one.
type bench struct {
	*shelf
	now  map[string]bmc.FirmwareItem
	read []string
}

func (b *bench) FirmwareItem(_ context.Context, id string) (bmc.FirmwareItem, error) {
	b.read = append(b.read, id)
	item, ok := b.now[id]
	if !ok {
		return bmc.FirmwareItem{}, bmc.ErrNotSupported
	}
	return item, nil
}

// The relevant items of an inventory that was read in parts are read again.
func TestReadInParts(t *testing.T) {
	host := &infrav1.IngotHost{}
	host.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", Version: "2"}}
	items := []bmc.FirmwareItem{{ID: "/f/1", Name: "BIOS", Version: "1"}, {ID: "/f/2", Name: "NIC", Version: "7"}}
	installed := map[string]bmc.FirmwareItem{"/f/1": {ID: "/f/1", Name: "BIOS", Version: "2"}}
	for name, tc := range map[string]struct {
		parted  bool
		now     map[string]bmc.FirmwareItem
		version string
		read    []string
		err     error
	}{
		"at once":           {now: installed, version: "1"},
		"in parts":          {parted: true, now: installed, version: "2", read: []string{"/f/1"}},
		"gone under its ID": {parted: true, read: []string{"/f/1"}, err: bmc.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{shelf: &shelf{items: slices.Clone(items)}, now: tc.now}
			for i := range b.items {
				b.items[i].FromEarlierRead = tc.parted
			}
			got, err := (&Preparer{Stable: strings.TrimSpace}).read(t.Context(), b, host)
			if !errors.Is(err, tc.err) {
				t.Fatalf("%v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.read, b.read); diff != "" {
				t.Errorf("read anew (-want +got):\n%s", diff)
			}
			if err == nil && got.Versions["BIOS"] != tc.version {
				t.Errorf("version %q, want %q", got.Versions["BIOS"], tc.version)
			}
		})
	}
}

// The class of a write error decides whether the write is repeated (I17).
func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want outcome
	}{
		{nil, accepted},
		{bmc.ErrUnknownOutcome, accepted},
		{bmc.ErrTimeout, accepted},
		{bmc.ErrNotSupported, rejected},
		{bmc.ErrNotApplied, rejected},
		{bmc.ErrProtocol, rejected},
		{errors.New("400 Bad Request"), rejected},
		{bmc.ErrBusy, unsent},
		{fmt.Errorf("%w: %w", bmc.ErrUnsent, bmc.ErrTimeout), unsent},
		{fmt.Errorf("%w: %w", bmc.ErrUnsent, errors.New("no space left on device")), unsent},
		{fmt.Errorf("%w: %w", bmc.ErrUnsent, bmc.ErrNotSupported), rejected}, // and will be the next time
		{bmc.ErrUnreachable, unsent},
		{bmc.ErrUnauthorized, unsent},
		{bmc.ErrCertificate, unsent},
		// The manager stops:
		{bmc.ErrPoolClosed, unsent},
		{context.Canceled, accepted},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("set settings: %w", err)
		}
		if got := outcomeOf(err); got != tc.want {
			t.Errorf("%v means %d, want %d", tc.err, got, tc.want)
		}
	}
}
