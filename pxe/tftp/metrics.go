// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe/collect"
)

// ending is how a request ended.
type ending int

const (
	// endSent: the client has the whole file.
	endSent ending = iota
	// endAborted: the client wanted no more, as UEFI that only asks for the size.
	endAborted
	// endSilent: the client stopped answering.
	endSilent
	// endSlow: the client took too little, and others waited.
	endSlow
	// endAbsent: a file that is refused on purpose (Server.Absent).
	endAbsent
	// endRefused: no such file, or not a request that is served.
	endRefused
	// endBusy: there was no place.
	endBusy
	// endFailed: any other failure.
	endFailed
	endings
)

func (e ending) String() string {
	return [endings]string{"sent", "aborted", "silent", "slow", "absent", "refused", "busy", "failed"}[e]
}

// Metrics count what is asked for and sent. No label comes from the network.
type Metrics struct {
	transfers *prometheus.CounterVec
	bytes     prometheus.Counter
	running   prometheus.Gauge
	ended     [endings]prometheus.Counter
}

// NewMetrics registers the metrics, or takes over those of an earlier server of the
// process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_tftp_transfers_total",
			Help: "TFTP requests, by what became of them."}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "ingot_tftp_sent_bytes_total",
			Help: "Bytes of files that TFTP clients have acknowledged."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_tftp_transfers_in_flight",
			Help: "TFTP transfers that run now."}),
	}
	if err := errors.Join(collect.Adopt(registry, &m.transfers), collect.Adopt(registry, &m.bytes), collect.Adopt(registry, &m.running)); err != nil {
		return nil, fmt.Errorf("register the metrics of TFTP: %w", err)
	}
	for e := range endings {
		m.ended[e] = m.transfers.WithLabelValues(e.String())
	}
	return m, nil
}

// count counts one request that ended; nil Metrics count nothing.
func (m *Metrics) count(e ending) {
	if m != nil {
		m.ended[e].Inc()
	}
}

// begin counts a transfer that runs, until the function it returns is called.
func (m *Metrics) begin() (end func()) {
	if m == nil {
		return func() {}
	}
	m.running.Inc()
	return m.running.Dec
}

func (m *Metrics) sent(bytes int64) {
	if m != nil && bytes > 0 {
		m.bytes.Add(float64(bytes))
	}
}

// endOf classifies the end of a transfer.
func endOf(err error) ending {
	switch {
	case err == nil:
		return endSent
	case errors.Is(err, errAborted):
		return endAborted
	case errors.Is(err, errGone):
		return endSilent
	case errors.Is(err, errSlow):
		return endSlow
	}
	return endFailed
}
