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

func TestEndOf(t *testing.T) {
	for want, err := range map[ending]error{
		endSent: nil, endAborted: fmt.Errorf("x: %w", errAborted), endSilent: fmt.Errorf("x: %w", errGone), endSlow: errSlow, endFailed: errors.New("disk"),
	} {
		if got := endOf(err); got != want {
			t.Errorf("%v ended %s, want %s", err, got, want)
		}
	}
}

// A second server of the process counts on in the same metrics.
func TestMetricsTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		m, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		end := m.begin()
		m.count(endSent)
		m.sent(100)
		if n := testutil.ToFloat64(m.running); n != 1 {
			t.Errorf("%v run", n)
		}
		end()
		if n := testutil.ToFloat64(m.running); n != 0 {
			t.Errorf("%v run at the end", n)
		}
	}
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if sent, bytes := testutil.ToFloat64(m.ended[endSent]), testutil.ToFloat64(m.bytes); sent != 2 || bytes != 200 {
		t.Errorf("%v transfers, %v bytes", sent, bytes)
	}
	if n := testutil.CollectAndCount(m.transfers); n != int(endings) {
		t.Errorf("%d series, want one for each outcome: %d", n, endings)
	}
	var none *Metrics
	none.count(endSent)
	none.sent(1)
	none.begin()()
}
