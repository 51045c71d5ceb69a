// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/pxe/collect"
)

// promisedHosts is the gauge of hosts that are kept for Clusters.
const promisedHosts = "ingot_promised_hosts"

// Metrics count what is outstanding. nil counts nothing.
type Metrics struct{ hosts *prometheus.GaugeVec }

// NewMetrics registers the metrics. A registry that has them already, of an earlier
// manager in this process, is used on.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	hosts := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: promisedHosts,
		Help: "Hosts that were promised to a Cluster and that it has not claimed yet.",
	}, []string{"namespace", "cluster"})
	if err := collect.RegisterOrGet(registry, &hosts); err != nil {
		return nil, fmt.Errorf("metric %s: %w", promisedHosts, err)
	}
	return &Metrics{hosts: hosts}, nil
}

func (m *Metrics) set(cluster types.NamespacedName, outstanding int) {
	if m != nil {
		m.hosts.WithLabelValues(cluster.Namespace, cluster.Name).Set(float64(outstanding))
	}
}

func (m *Metrics) forget(cluster types.NamespacedName) {
	if m != nil {
		m.hosts.DeleteLabelValues(cluster.Namespace, cluster.Name)
	}
}
