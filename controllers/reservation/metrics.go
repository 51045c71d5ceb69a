// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/pxe/collect"
)

const reservedHosts = "ingot_reserved_hosts"

// Metrics exports the outstanding hosts of each reservation. nil exports nothing.
type Metrics struct{ hosts *prometheus.GaugeVec }

// NewMetrics registers the metrics, or uses those that an earlier manager in this process
// registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	hosts := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: reservedHosts,
		Help: "Hosts reserved for a Cluster that it has not claimed yet.",
	}, []string{"namespace", "cluster"})
	if err := collect.RegisterOrGet(registry, &hosts); err != nil {
		return nil, fmt.Errorf("metric %s: %w", reservedHosts, err)
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
