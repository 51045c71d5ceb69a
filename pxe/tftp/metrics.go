// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe/collect"
)

const (
	outcomeSent    = "sent"    // the client has the whole file
	outcomeAborted = "aborted" // the client ended the transfer: UEFI asks for the size only
	outcomeSilent  = "silent"  // the client stopped answering
	outcomeSlow    = "slow"    // the client was slower than minRate
	outcomeAbsent  = "absent"  // a file that is missing on purpose (Server.Absent)
	outcomeRefused = "refused" // no such file, or an unsupported request
	outcomeBusy    = "busy"    // no slot became free
	outcomeFailed  = "failed"  // any other failure
)

// Metrics count requests and bytes. No label comes from the network.
type Metrics struct {
	transfers *prometheus.CounterVec
	bytes     prometheus.Counter
	running   prometheus.Gauge
}

// NewMetrics registers the metrics, or reuses those of an earlier server of the process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_tftp_transfers_total",
			Help: "TFTP requests, by outcome."}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "ingot_tftp_sent_bytes_total",
			Help: "Bytes of files that TFTP clients have acknowledged."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_tftp_transfers_in_flight",
			Help: "Running TFTP transfers."}),
	}
	if err := errors.Join(collect.RegisterOrGet(registry, &m.transfers), collect.RegisterOrGet(registry, &m.bytes),
		collect.RegisterOrGet(registry, &m.running)); err != nil {
		return nil, fmt.Errorf("register TFTP metrics: %w", err)
	}
	for _, outcome := range []string{outcomeSent, outcomeAborted, outcomeSilent, outcomeSlow, outcomeAbsent, outcomeRefused, outcomeBusy, outcomeFailed} {
		m.count(outcome, 0) // so that all series exist
	}
	return m, nil
}

func (m *Metrics) count(outcome string, requests float64) {
	m.transfers.WithLabelValues(outcome).Add(requests)
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeSent
	case errors.Is(err, errAborted):
		return outcomeAborted
	case errors.Is(err, errGone):
		return outcomeSilent
	case errors.Is(err, errSlow):
		return outcomeSlow
	}
	return outcomeFailed
}
