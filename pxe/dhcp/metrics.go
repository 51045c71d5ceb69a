// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/collect"
)

// Metrics count received messages and findings. The only labels from the network are the
// addresses of other servers, whose number is bounded. Nil counts nothing.
type Metrics struct {
	messages *prometheus.CounterVec
	findings *prometheus.CounterVec
	rogues   *prometheus.GaugeVec
	// known caches the counters of messages by type and outcome: a lookup by labels costs
	// more than the rest of an exchange.
	known [lastType + 1][outcomes]prometheus.Counter
}

// lastType is the last message type of RFC 2131. Higher types count as type 0.
const lastType = dhcpv4.MessageTypeInform

type outcome int

const (
	outcomeMalformed outcome = iota
	outcomeUnknown
	outcomeSilent
	outcomeOffer
	outcomeAck
	outcomeNak
	outcomeFailed
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"malformed", "unknown", "silent", "offer", "ack", "nak", "failed"}[o]
}

var findings = []pxe.Stage{pxe.StageConflict, pxe.StageWrongNetwork, pxe.StageOtherServer, pxe.StageFailed}

// NewMetrics registers the metrics, or reuses those of an earlier server of the process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_dhcp_messages_total",
			Help: "DHCP messages received, by message type and outcome."}, []string{"type", "outcome"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_dhcp_findings_total",
			Help: "Problems on the provisioning networks, by kind: AddressConflict, WrongNetwork, OtherDHCPServer, Failed."}, []string{"kind"}),
		rogues: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ingot_dhcp_other_server_seen_timestamp_seconds",
			Help: "Last time that a DHCP server outside of Ingot answered one of its hosts, by server address."}, []string{"server"}),
	}
	if err := errors.Join(collect.RegisterOrGet(registry, &m.messages), collect.RegisterOrGet(registry, &m.findings), collect.RegisterOrGet(registry, &m.rogues)); err != nil {
		return nil, fmt.Errorf("register DHCP metrics: %w", err)
	}
	for t := range m.known {
		name := "other"
		if t > 0 {
			name = strings.ToLower(dhcpv4.MessageType(t).String())
		}
		for o := range outcomes {
			m.known[t][o] = m.messages.WithLabelValues(name, o.String())
		}
	}
	// Start at zero: increase() ignores the first sample of a new series.
	for _, stage := range findings {
		m.findings.WithLabelValues(string(stage))
	}
	return m, nil
}

func (m *Metrics) count(kind dhcpv4.MessageType, o outcome) {
	if m == nil {
		return
	}
	if kind > lastType {
		kind = dhcpv4.MessageTypeNone
	}
	m.known[kind][o].Inc()
}

// countFinding counts a problem and ignores other stages.
func (m *Metrics) countFinding(stage pxe.Stage) {
	if m != nil && slices.Contains(findings, stage) {
		m.findings.WithLabelValues(string(stage)).Inc()
	}
}

func (m *Metrics) setRogue(server netip.Addr, at float64) {
	if m != nil {
		m.rogues.WithLabelValues(server.String()).Set(at)
	}
}

func (m *Metrics) deleteRogue(server netip.Addr) {
	if m != nil {
		m.rogues.DeleteLabelValues(server.String())
	}
}

func outcomeOf(a Answer, sent error) outcome {
	switch {
	case sent != nil:
		return outcomeFailed
	case !a.known:
		return outcomeUnknown
	case a.Packet == nil:
		return outcomeSilent
	case a.reply == dhcpv4.MessageTypeOffer:
		return outcomeOffer
	case a.reply == dhcpv4.MessageTypeNak:
		return outcomeNak
	}
	return outcomeAck
}
