// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAdopt(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := func() prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "same", Help: "The same."})
	}
	first, second := counter(), counter()
	original := first
	for _, c := range []*prometheus.Counter{&first, &second} {
		if err := Adopt(registry, c); err != nil {
			t.Fatal(err)
		}
	}
	if first != original || second != original {
		t.Error("the second server has a counter of its own, which nobody reads")
	}
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "same", Help: "The same."}, nil)
	if err := Adopt(registry, &gauge); err == nil {
		t.Error("a gauge took the name of a counter")
	}
}
