// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestOutcomeOf(t *testing.T) {
	for want, err := range map[string]error{
		outcomeSent: nil, outcomeAborted: fmt.Errorf("x: %w", errAborted), outcomeSilent: fmt.Errorf("x: %w", errGone), outcomeSlow: errSlow,
		outcomeFailed: errors.New("disk"),
	} {
		if got := outcomeOf(err); got != want {
			t.Errorf("%v ended %s, want %s", err, got, want)
		}
	}
}

func TestSecondServerSharesTheMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	var last *Metrics
	for range 2 {
		m, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		m.count(outcomeSent, 1)
		last = m
	}
	if sent := testutil.ToFloat64(last.transfers.WithLabelValues(outcomeSent)); sent != 2 {
		t.Errorf("%v transfers, want 2", sent)
	}
}
