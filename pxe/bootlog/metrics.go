// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe/collect"
)

// Metrics measure boots. Nil measures nothing. No label names a host, to bound the series.
type Metrics struct {
	stages  *prometheus.HistogramVec
	boots   *prometheus.CounterVec
	dropped prometheus.Counter
}

// NewMetrics registers the metrics, or reuses those of an earlier server of the process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ingot_boot_stage_duration_seconds",
			Help:    "How long hosts took from the last thing heard of them to each stage of a network boot, in seconds.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120}}, []string{"stage"}),
		boots: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_boots_total",
			Help: "Network boots, by how they ended: Agent, Disk, or Incomplete."}, []string{"outcome"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "ingot_boots_dropped_total",
			Help: "Boots that are missing in the boot logs of their hosts, because the manager could not be reached for long, or there were too many of one host."}),
	}
	if err := errors.Join(collect.RegisterOrGet(registry, &m.stages), collect.RegisterOrGet(registry, &m.boots), collect.RegisterOrGet(registry, &m.dropped)); err != nil {
		return nil, fmt.Errorf("register the metrics of boots: %w", err)
	}
	for _, stage := range []Stage{Loader, Script, Kernel, Initramfs, Agent} {
		m.stages.WithLabelValues(string(stage))
	}
	for _, outcome := range []Outcome{AgentStarted, BootedFromDisk, Incomplete} {
		m.boots.WithLabelValues(string(outcome))
	}
	return m, nil
}

func (m *Metrics) stage(stage Stage, took time.Duration) {
	if m != nil {
		m.stages.WithLabelValues(string(stage)).Observe(took.Seconds())
	}
}

func (m *Metrics) end(outcome Outcome) {
	if m != nil {
		m.boots.WithLabelValues(string(outcome)).Inc()
	}
}

func (m *Metrics) drop() {
	if m != nil {
		m.dropped.Inc()
	}
}
