// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe/collect"
)

// The gauges of hosts: how many there are of each phase, and of each state of each condition.
var (
	hostsOfPhase = prometheus.NewDesc("ingot_hosts",
		"Hosts, by namespace and phase.", []string{"namespace", "phase"}, nil)
	hostsOfCondition = prometheus.NewDesc("ingot_host_conditions",
		"Hosts that have a condition, by namespace, type, status and reason.", []string{"namespace", "type", "status", "reason"}, nil)
)

// Census counts hosts for Prometheus, each time that it asks. It names no host: the number
// of series does not grow with that of hosts.
type Census struct {
	hosts client.Reader
	leads atomic.Bool
}

// NewCensus registers the gauges, in the place of an earlier manager's of this process.
// hosts is read at each scrape: a cache.
func NewCensus(hosts client.Reader, registry prometheus.Registerer) (*Census, error) {
	c := &Census{hosts: hosts}
	if err := collect.Replace(registry, c); err != nil {
		return nil, fmt.Errorf("metrics of hosts: %w", err)
	}
	return c, nil
}

// Start implements manager.Runnable; a manager runs it while it leads. Only then hosts are
// counted: replicas would each count all of them.
func (c *Census) Start(ctx context.Context) error {
	c.leads.Store(true)
	<-ctx.Done()
	c.leads.Store(false)
	return nil
}

// Describe implements prometheus.Collector.
func (c *Census) Describe(out chan<- *prometheus.Desc) {
	out <- hostsOfPhase
	out <- hostsOfCondition
}

// Collect implements prometheus.Collector.
func (c *Census) Collect(out chan<- prometheus.Metric) {
	if !c.leads.Load() {
		return
	}
	hosts := &infrav1.IngotHostList{}
	if err := c.hosts.List(context.Background(), hosts, client.UnsafeDisableDeepCopy); err != nil { // nothing of them is changed
		out <- prometheus.NewInvalidMetric(hostsOfPhase, err)
		return
	}
	phases, states := map[[2]string]int{}, map[[4]string]int{}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		// Where there is one host, that there is none of a phase is told: an alarm that
		// none is free must not end when the last one goes.
		for _, phase := range infrav1.HostPhases {
			phases[[2]string{host.Namespace, string(phase)}] += 0
		}
		phases[[2]string{host.Namespace, string(host.Status.Phase)}]++
		for _, c := range host.Status.Conditions {
			states[[4]string{host.Namespace, c.Type, string(c.Status), c.Reason}]++
		}
	}
	for labels, count := range phases {
		out <- prometheus.MustNewConstMetric(hostsOfPhase, prometheus.GaugeValue, float64(count), labels[:]...)
	}
	for labels, count := range states {
		out <- prometheus.MustNewConstMetric(hostsOfCondition, prometheus.GaugeValue, float64(count), labels[:]...)
	}
}
