// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/token"
)

// Event streams are counted by state, and a later manager of the process replaces the collector.
func TestWatchMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, live := range []int{1, 7} {
		if err := watchMetrics(registry, func() bmc.WatchCounts { return bmc.WatchCounts{Live: live, Events: 3} }); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 3 {
		t.Fatalf("metrics = %v, error %v", families, err)
	}
	found := false
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				found = found || label.GetValue() == "live" && m.GetGauge().GetValue() == 7
			}
		}
	}
	if !found {
		t.Errorf("no gauge of 7 live watches: %v", families)
	}
}

// The mark identifies the installation across restarts, and each process.
func TestSessionMark(t *testing.T) {
	id := &identity{pins: []token.Pin{token.PinOf([]byte("key")), token.PinOf([]byte("next"))}}
	one, two := id.sessionMark(), id.sessionMark()
	if one.Owner != two.Owner || one.Owner == "" || !one.IsEarlierProcess(two.String()) || one.IsEarlierProcess(one.String()) {
		t.Errorf("marks %q and %q", one, two)
	}
	other := (&identity{pins: []token.Pin{token.PinOf([]byte("other"))}}).sessionMark()
	if one.IsEarlierProcess(other.String()) || strings.Contains(one.Owner, "/") {
		t.Errorf("marks %q and %q", one, other)
	}
	if none := (&identity{}).sessionMark(); none.String() != "" {
		t.Errorf("mark %q without an identity", none)
	}
}
