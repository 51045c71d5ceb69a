// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRegisterOrGet(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := func() prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "same", Help: "The same."})
	}
	first, second := counter(), counter()
	original := first
	for _, c := range []*prometheus.Counter{&first, &second} {
		if err := RegisterOrGet(registry, c); err != nil {
			t.Fatal(err)
		}
	}
	if first != original || second != original {
		t.Error("the second server has its own, unregistered counter")
	}
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "same", Help: "The same."}, nil)
	if err := RegisterOrGet(registry, &gauge); err == nil {
		t.Error("a gauge took the name of a counter")
	}
}

func TestReplaceRegistersTheNewCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := func(value float64) prometheus.Collector {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "same", Help: "The same."})
		g.Set(value)
		return g
	}
	for _, value := range []float64{1, 2} {
		if err := Replace(registry, gauge(value)); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetGauge().GetValue() != value {
			t.Errorf("with %v: %v, %v", value, families, err)
		}
	}
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "same", Help: "Not the same."})
	if err := Replace(registry, other); err == nil {
		t.Error("the error of the registry is lost")
	}
}
