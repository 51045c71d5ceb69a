// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/ingot-metal/ingot/pxe/collect"
)

const hookSeconds = "ingot_hook_duration_seconds"

// Values of the label outcome.
const (
	outcomeSuccess = "success"
	outcomeBlocked = "blocked"
	outcomeFailure = "failure"
)

// Metrics measures the hook calls. A nil Metrics measures nothing.
type Metrics struct{ answers *prometheus.HistogramVec }

// NewMetrics registers the metrics. It reuses metrics that an earlier manager of this process
// registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	answers := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    hookSeconds,
		Help:    "Duration of Cluster API hook calls in seconds, by hook and outcome (success, blocked, failure).",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"hook", "outcome"})
	if err := collect.RegisterOrGet(registry, &answers); err != nil {
		return nil, fmt.Errorf("register metric %s: %w", hookSeconds, err)
	}
	return &Metrics{answers: answers}, nil
}

func (m *Metrics) observe(hook, outcome string, took time.Duration) {
	if m != nil {
		m.answers.WithLabelValues(hook, outcome).Observe(took.Seconds())
	}
}

func outcomeOf(answer response) string {
	if answer["status"] != string(runtimehooksv1.ResponseStatusSuccess) {
		return outcomeFailure
	}
	if wait, ok := answer["retryAfterSeconds"].(float64); ok && wait > 0 {
		return outcomeBlocked
	}
	return outcomeSuccess
}
