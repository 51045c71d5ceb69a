// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
)

func hostForTable(name, rack string, change func(*infrav1.IngotHost)) infrav1.IngotHost {
	host := infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{infrav1.RackLabel: rack}}}
	if change != nil {
		change(&host)
	}
	return host
}

func TestRowsOf(t *testing.T) {
	v := view{hosts: []infrav1.IngotHost{
		hostForTable("z", "rack-a", func(h *infrav1.IngotHost) {
			h.Status.Phase, h.Status.Power = infrav1.PhaseProvisioning, infrav1.PowerStateOn
			h.Status.Operation = &infrav1.HostOperation{Kind: infrav1.OrderInstall, Step: "Writing", Percent: ptr.To[int32](50)}
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m-1"}}
		}),
		hostForTable("b", "rack-b", func(h *infrav1.IngotHost) {
			h.Status.Booted = &infrav1.BootedStatus{}
			h.Status.Addresses = []string{"10.77.0.101"}
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m-2"}, State: infrav1.ClaimProvisioned}
		}),
		hostForTable("c", "rack-b", func(h *infrav1.IngotHost) { // the system is shut down
			h.Status.Booted = &infrav1.BootedStatus{}
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m-3"}, State: infrav1.ClaimReleasing}
		}),
		hostForTable("d", "rack-b", func(h *infrav1.IngotHost) { // and the host is cleaned
			h.Status.Booted = &infrav1.BootedStatus{}
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m-4"}, State: infrav1.ClaimReleasing}
			h.Status.Operation = &infrav1.HostOperation{Kind: infrav1.OrderClean, Step: "Cleaning"}
		}),
		hostForTable("a", "rack-a", nil),
	}}
	none := strings.Repeat(" ", barWidth+7)
	want := []row{
		{Host: "a", Rack: "rack-a", Phase: "-", Power: "-", Step: "-", Progress: none, Machine: "-"},
		{Host: "z", Rack: "rack-a", Phase: "Provisioning", Power: "On", Step: "Install Writing", Progress: "[##########..........]  50%", Machine: "m-1"},
		{Host: "b", Rack: "rack-b", Phase: "-", Power: "-", Step: "Booted 10.77.0.101", Progress: none, Machine: "m-2"},
		{Host: "c", Rack: "rack-b", Phase: "-", Power: "-", Step: "Shutting down", Progress: none, Machine: "m-3"},
		{Host: "d", Rack: "rack-b", Phase: "-", Power: "-", Step: "Clean Cleaning", Progress: none, Machine: "m-4"},
	}
	if diff := cmp.Diff(want, rowsOf(v)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestBarStaysInItsWidth(t *testing.T) {
	for _, percent := range []int32{0, 1, 33, 99, 100} {
		if got := bar(&percent); len(got) != len(bar(nil)) {
			t.Errorf("bar(%d) = %q is %d wide, want %d", percent, got, len(got), len(bar(nil)))
		}
	}
}

func TestProgressWithoutLength(t *testing.T) {
	for name, tc := range map[string]struct {
		percent *int32
		bytes   int64
		want    string
	}{
		"nothing yet":       {ptr.To[int32](0), 0, "[....................]   0%"},
		"length unknown":    {ptr.To[int32](0), 3435973837, "3.2 GiB"},
		"length known":      {ptr.To[int32](50), 3435973837, "[##########..........]  50%"},
		"nothing reported":  {nil, 0, ""},
		"more than any has": {nil, 1<<63 - 1, "8589934592.0 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got := progressOf(&infrav1.HostOperation{Percent: tc.percent, Bytes: tc.bytes})
			if diff := cmp.Diff(tc.want, strings.TrimRight(got, " ")); diff != "" || len(got) != len(bar(nil)) {
				t.Errorf("progressOf is %d wide (-want +got):\n%s", len(got), diff)
			}
		})
	}
}

func TestTableDrawsInPlaceAndLogsChangesOnly(t *testing.T) {
	rows := []row{{Host: "a", Phase: "Available", Progress: bar(nil)}}
	moved := []row{{Host: "a", Phase: "Available", Progress: bar(ptr.To[int32](7))}}
	changed := []row{{Host: "a", Phase: "Provisioning", Progress: bar(nil)}}

	var log strings.Builder
	plain := &table{out: &log, started: time.Now()}
	for _, r := range [][]row{rows, rows, moved, changed} {
		plain.draw(r)
	}
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("a log of one host that changed once has %d lines, want 2:\n%s", got, log.String())
	}

	var screen strings.Builder
	live := &table{out: &screen, live: true, title: "Testing", started: time.Now()}
	live.draw(rows)
	live.draw(changed)
	if got := strings.Count(screen.String(), "\x1b[3A\x1b[J"); got != 1 {
		t.Errorf("the second drawing must go back over the 3 lines of the first; %d did:\n%q", got, screen.String())
	}
}

func TestTimeline(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	writes := []bmc.Write{
		{At: at(1), Action: "Login", Status: 201},
		{At: at(3), Action: "Reset On", Status: 204},
		{At: at(4), Action: "Reset On", Status: 503},
	}
	of := func(kind, name, reason string, s int) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: reason,
			Message: "What happened. What comes next", EventTime: metav1.NewMicroTime(at(s)),
		}
	}
	events := []corev1.Event{
		of("IngotHost", "a", "Inspected", 5), of("IngotHost", "b", "Inspected", 2), of("IngotMachine", "a", "HostClaimed", 2), of("IngotHost", "a", "Inspecting", 2),
	}
	want := []entry{
		{at(2), "Ingot  Inspecting: What happened"}, {at(3), "BMC    Reset On"}, {at(5), "Ingot  Inspected: What happened"},
	}
	if diff := cmp.Diff(want, timeline("a", writes, events), cmp.AllowUnexported(entry{})); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"all of it":         {Options{}, ""},
		"one server":        {Options{Servers: []string{"bios-1"}, Machines: 1}, ""},
		"unknown server":    {Options{Servers: []string{"bios-9"}}, `"bios-9"`},
		"unknown disk":      {Options{WithoutDisk: []string{"x"}}, `"x"`},
		"too many machines": {Options{Servers: []string{"bios-1"}, Machines: 2}, "--machines: 2"},
		"no machines":       {Options{Machines: -1}, "--machines: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.complete()
			if c.want == "" && err != nil {
				t.Errorf("rejected: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v does not name %s", err, c.want)
			}
		})
	}
}
