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

// hookSeconds is the histogram of answers.
const hookSeconds = "ingot_hook_duration_seconds"

// Outcomes of a call.
const (
	outcomeSuccess = "success"
	outcomeBlocked = "blocked"
	outcomeFailure = "failure"
)

// Metrics measure how hooks are answered. Nil measures nothing.
type Metrics struct{ answers *prometheus.HistogramVec }

// NewMetrics registers the metrics. A registry that has them already, of an earlier
// manager in this process, is used on.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	answers := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    hookSeconds,
		Help:    "Duration of answers to Cluster API's hooks in seconds, by hook and outcome: success, blocked, failure.",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"hook", "outcome"})
	if err := collect.RegisterOrGet(registry, &answers); err != nil {
		return nil, fmt.Errorf("metric %s: %w", hookSeconds, err)
	}
	return &Metrics{answers: answers}, nil
}

func (m *Metrics) observe(hook, outcome string, took time.Duration) {
	if m != nil {
		m.answers.WithLabelValues(hook, outcome).Observe(took.Seconds())
	}
}

// outcomeOf sorts an answer.
func outcomeOf(answer response) string {
	if answer["status"] != string(runtimehooksv1.ResponseStatusSuccess) {
		return outcomeFailure
	}
	if wait, ok := answer["retryAfterSeconds"].(float64); ok && wait > 0 {
		return outcomeBlocked
	}
	return outcomeSuccess
}
