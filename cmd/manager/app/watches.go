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

// sessionMark is by whom BMC sessions are opened: this installation, which its pin
// names over restarts, and this life of it.
func (id *identity) sessionMark() bmc.Mark {
	mark := bmc.Mark{Life: uuid.NewString()}
	if len(id.pins) > 0 {
		_, mark.Owner, _ = strings.Cut(string(id.pins[0]), "/")
	}
	return mark
}

// watchBMCs has the reconciler told of what BMCs tell by themselves, where that is
// wanted.
func watchBMCs(mgr manager.Manager, o *Options, pool *bmc.Pool, hosts *host.Reconciler) error {
	if !o.BMCEvents {
		return nil
	}
	options := o.Watches
	options.Notify = hosts.Heard
	watches := bmc.NewWatches(pool, options)
	if err := watchMetrics(metrics.Registry, watches.Counts); err != nil {
		return err
	}
	hosts.Watches = watches
	return mgr.Add(watcher{watches})
}

// watcher ends the streams when the manager stops. Sessions are the closer's.
type watcher struct{ watches *bmc.Watches }

// Start waits for the end.
func (w watcher) Start(ctx context.Context) error {
	<-ctx.Done()
	w.watches.Close()
	return nil
}

// NeedLeaderElection: only the leader has any.
func (watcher) NeedLeaderElection() bool { return true }

// watchCollector tells how the watches fare.
type watchCollector struct {
	counts               func() bmc.WatchCounts
	watches, told, ended *prometheus.Desc
}

// watchMetrics registers the collector, in the place of an earlier manager's of this
// process.
func watchMetrics(registry prometheus.Registerer, counts func() bmc.WatchCounts) error {
	collector := &watchCollector{
		counts:  counts,
		watches: prometheus.NewDesc("ingot_bmc_watches", "BMCs to be watched for events, by state: live, waiting, unsupported.", []string{"state"}, nil),
		told:    prometheus.NewDesc("ingot_bmc_events_total", "Events that BMCs told by themselves.", nil, nil),
		ended:   prometheus.NewDesc("ingot_bmc_watches_ended_total", "Streams of events that ended by themselves.", nil, nil),
	}
	if err := collect.Replace(registry, collector); err != nil {
		return fmt.Errorf("metrics of watches: %w", err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (c *watchCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.watches
	out <- c.told
	out <- c.ended
}

// Collect implements prometheus.Collector.
func (c *watchCollector) Collect(out chan<- prometheus.Metric) {
	n := c.counts()
	for state, count := range map[string]int{"live": n.Live, "waiting": n.Waiting, "unsupported": n.Unsupported} {
		out <- prometheus.MustNewConstMetric(c.watches, prometheus.GaugeValue, float64(count), state)
	}
	out <- prometheus.MustNewConstMetric(c.told, prometheus.CounterValue, float64(n.Events))
	out <- prometheus.MustNewConstMetric(c.ended, prometheus.CounterValue, float64(n.Ended))
}
