// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/pxe"
)

// Calls are counted by name and outcome, also by two managers of one process. No label contains an
// address.
func TestBMCMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		observe, err := bmcMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		observe(bmc.Call{Address: "redfish://secret.example", Name: bmc.CallPowerState, Outcome: bmc.OutcomeBusy, Duration: time.Second})
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != bmcCallSeconds {
		t.Fatalf("metrics = %v, error %v", families, err)
	}
	series := families[0].GetMetric()
	if len(series) != 1 || series[0].GetHistogram().GetSampleCount() != 2 || series[0].GetHistogram().GetSampleSum() != 2 {
		t.Errorf("series = %v", series)
	}
	if text := families[0].String(); strings.Contains(text, "secret.example") || !strings.Contains(text, "Busy") {
		t.Errorf("labels: %s", text)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: bmcCallSeconds, Help: "x"}, []string{"other"}))
	if _, err := bmcMetrics(taken); err == nil {
		t.Error("a metric of another shape was accepted")
	}
}

// The log shows no address for a client that has none yet.
func TestBootLog(t *testing.T) {
	for name, tc := range map[string]struct {
		event pxe.BootEvent
		want  string
	}{
		"a client without an address": {pxe.BootEvent{Stage: pxe.StageOffer, Host: "metal/h1"}, `"client"=""`},
		"a client with an address":    {pxe.BootEvent{Stage: pxe.StageAck, Host: "metal/h1", Client: netip.MustParseAddr("10.10.0.20")}, `"client"="10.10.0.20"`},
	} {
		var line string
		log := funcr.New(func(_, args string) { line = args }, funcr.Options{Verbosity: 1})
		bootLog(log).Observe(tc.event)
		if !strings.Contains(line, tc.want) {
			t.Errorf("%s: the log has %q, want %s in it", name, line, tc.want)
		}
	}
}
