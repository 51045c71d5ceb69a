// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"fmt"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe/collect"
)

// Metrics count received messages. No label comes from the network. Nil counts nothing.
type Metrics struct{ messages *prometheus.CounterVec }

const (
	outcomeMalformed = "malformed"
	outcomeUnknown   = "unknown"
	outcomeSilent    = "silent"
	outcomeFailed    = "failed"
)

// NewMetrics registers the metrics, or reuses those of an earlier server of the process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_dhcpv6_messages_total",
		Help: "DHCPv6 messages received, by message type and outcome."}, []string{"type", "outcome"})}
	if err := collect.RegisterOrGet(registry, &m.messages); err != nil {
		return nil, fmt.Errorf("register DHCPv6 metrics: %w", err)
	}
	return m, nil
}

func (m *Metrics) count(kind dhcpv6.MessageType, outcome string) {
	if m == nil {
		return
	}
	name := "other"
	if outcome != outcomeMalformed {
		name = strings.ToLower(kind.String()) // parse bounds the types
	}
	m.messages.WithLabelValues(name, outcome).Inc()
}

func outcomeOf(a Answer, sent error) string {
	switch {
	case sent != nil:
		return outcomeFailed
	case !a.known:
		return outcomeUnknown
	case a.Packet == nil:
		return outcomeSilent
	}
	return strings.ToLower(a.reply.String())
}
