// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/controllers/host"
	"github.com/ingot-metal/ingot/pxe/collect"
)

// sessionMark returns the mark of this process's BMC sessions. Owner identifies the installation by
// its pin, and Life the process.
func (id *identity) sessionMark() bmc.SessionLabel {
	mark := bmc.SessionLabel{Process: uuid.NewString()}
	if len(id.pins) > 0 {
		_, mark.Owner, _ = strings.Cut(string(id.pins[0]), "/")
	}
	return mark
}

// watchBMCs connects the event streams of BMCs to the host reconciler if --bmc-events is set.
func watchBMCs(mgr manager.Manager, o *Options, pool *bmc.Pool, hosts *host.Reconciler) error {
	if !o.BMCEvents {
		return nil
	}
	options := o.Watches
	options.Notify = hosts.HandleBMCEvent
	watches := bmc.NewWatches(pool, options)
	if err := watchMetrics(metrics.Registry, watches.Counts); err != nil {
		return err
	}
	hosts.Watches = watches
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { // on the leader
		<-ctx.Done()
		watches.Close()
		return nil
	}))
}

// watchCollector exports the state of the event streams.
type watchCollector struct {
	counts                 func() bmc.WatchCounts
	watches, events, ended *prometheus.Desc
}

// watchMetrics registers the collector, and replaces that of an earlier manager of this process.
func watchMetrics(registry prometheus.Registerer, counts func() bmc.WatchCounts) error {
	collector := &watchCollector{
		counts:  counts,
		watches: prometheus.NewDesc("ingot_bmc_watches", "BMCs with event streams, by state: live, waiting, unsupported.", []string{"state"}, nil),
		events:  prometheus.NewDesc("ingot_bmc_events_total", "Events received from BMCs.", nil, nil),
		ended:   prometheus.NewDesc("ingot_bmc_watches_ended_total", "Event streams that ended unexpectedly.", nil, nil),
	}
	if err := collect.Replace(registry, collector); err != nil {
		return fmt.Errorf("register the metrics of BMC event streams: %w", err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (c *watchCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.watches
	out <- c.events
	out <- c.ended
}

// Collect implements prometheus.Collector.
func (c *watchCollector) Collect(out chan<- prometheus.Metric) {
	n := c.counts()
	for state, count := range map[string]int{"live": n.Live, "waiting": n.Waiting, "unsupported": n.Unsupported} {
		out <- prometheus.MustNewConstMetric(c.watches, prometheus.GaugeValue, float64(count), state)
	}
	out <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, float64(n.Events))
	out <- prometheus.MustNewConstMetric(c.ended, prometheus.CounterValue, float64(n.Ended))
}
