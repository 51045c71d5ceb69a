// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a package of one file, and returns its directory.
func write(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\nimport \"unknown\"\n\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const documentedReasons = `const (
	// ReasonBMCUnreachable: Ingot cannot connect to the
	// BMC (I8).
	// +ingot:category=BMC
	// +ingot:remedy=Check spec.bmc.address, host <host>
	// and the route.
	ReasonBMCUnreachable = "BMCUnreachable"
	// ReasonReady: The host is ready.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonReady = "Ready"
)
`

// reasonsOf returns the page of the reasons in a package.
func reasonsOf(t *testing.T, source string) (string, error) {
	t.Helper()
	all, err := constants(write(t, source), func(name string) bool { return strings.HasPrefix(name, "Reason") })
	if err != nil {
		t.Fatal(err)
	}
	return reasonTables(all)
}

func TestReasonsAreGroupedByCategory(t *testing.T) {
	got, err := reasonsOf(t, documentedReasons)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n## BMC\n",
		"| `BMCUnreachable` | Ingot cannot connect to the BMC. | Check `spec.bmc.address`, host &lt;host&gt; and the route. |\n",
		"\n## Progress\n",
		"| `Ready` | The host is ready. | None. |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestReasonsMustBeComplete(t *testing.T) {
	tests := map[string]struct{ source, want string }{
		"complete":         {documentedReasons, ""},
		"no comment":       {`const ReasonA = "A"`, "ReasonA"},
		"unknown category": {"// ReasonA: a.\n// +ingot:category=Weather\n// +ingot:remedy=None.\nconst ReasonA = \"A\"", "ReasonA"},
		"no category":      {"// ReasonA: a.\n// +ingot:remedy=None.\nconst ReasonA = \"A\"", "ReasonA"},
		"no remedy":        {"// ReasonA: a.\n// +ingot:category=Boot\nconst ReasonA = \"A\"", "ReasonA"},
		"no meaning":       {"// +ingot:category=Boot\n// +ingot:remedy=None.\nconst ReasonA = \"A\"", "ReasonA"},
		"the same again":   {documentedReasons + "const ReasonReadyAgain = \"Ready\"", ""},
		"documented twice": {documentedReasons + "// ReasonReadyAgain: b.\nconst ReasonReadyAgain = \"Ready\"", "ReasonReadyAgain"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := reasonsOf(t, test.source)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestGeneratedPages fails for an undocumented reason, annotation, label or metric, and for a page
// that "make generate" would change.
func TestGeneratedPages(t *testing.T) {
	root := filepath.Join("..", "..")
	all, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range all {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s is stale: run make generate", path)
		}
	}
}

func TestMetricsAreFoundInSource(t *testing.T) {
	got, err := metricsOf(write(t, `const name = "ingot_calls_seconds"

var (
	a = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: "Calls."}, []string{"call", "outcome"})
	b = prometheus.NewDesc("ingot_events_total", "Events.", nil, nil)
	c = prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_running", Help: "Running."})
	d = prometheus.NewRegistry()
)
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"`ingot_calls_seconds` histogram `call`, `outcome` Calls.",
		"`ingot_events_total` counter  Events.",
		"`ingot_running` gauge  Running.",
	}
	for i, row := range got {
		if i >= len(want) || strings.Join(row, " ") != want[i] {
			t.Errorf("row %d: %q, want %q", i, row, want)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d metrics, want %d", len(got), len(want))
	}
	if _, err := metricsOf(write(t, `var a = prometheus.NewGauge(prometheus.GaugeOpts{Name: call()})`)); err == nil {
		t.Error("a metric without a constant name is accepted")
	}
}

// Each flag of the manager is on the page exactly once.
func TestFlagsHaveRoles(t *testing.T) {
	got, err := flagsPage(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--roles", "--diagnostics-address", "--power-poll", "--boot-address", "--hooks-port", "--v", "--print-unified-image"} {
		if n := strings.Count(got, "| `"+flag+"` |"); n != 1 {
			t.Errorf("%s is on the page %d times, want once", flag, n)
		}
	}
	if !strings.Contains(got, "Usage: manager bmc") || !strings.Contains(got, "| `ingot.pin` |") {
		t.Error("no usage of manager bmc, or no kernel arguments of the agent")
	}
}
