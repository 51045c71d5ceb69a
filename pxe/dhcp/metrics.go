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

// Metrics count what the server hears, and what becomes of it. No label comes
// from the network but the addresses of other servers, of which there are few.
type Metrics struct {
	messages *prometheus.CounterVec
	findings *prometheus.CounterVec
	others   *prometheus.GaugeVec
	// known are the children of messages by type and outcome: a lookup by labels
	// costs more than the rest of an exchange.
	known [lastType + 1][outcomes]prometheus.Counter
}

// lastType is the last of RFC 2131's message types; others count as type 0.
const lastType = dhcpv4.MessageTypeInform

// outcome is what became of one message.
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

// findings are the stages that something wrong is told by.
var findings = []pxe.Stage{pxe.StageConflict, pxe.StageMisplaced, pxe.StageOtherServer, pxe.StageFailed}

// NewMetrics registers the metrics, or takes over those of an earlier server of
// the process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_dhcp_messages_total",
			Help: "DHCP messages received, by their type and what became of them."}, []string{"type", "outcome"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_dhcp_findings_total",
			Help: "What is wrong on the provisioning networks, by kind: AddressConflict, WrongNetwork, OtherDHCPServer, Failed."}, []string{"kind"}),
		others: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ingot_dhcp_other_server_seen_timestamp_seconds",
			Help: "When a DHCP server that is not Ingot's answered one of its hosts last, by the server's address."}, []string{"server"}),
	}
	if err := errors.Join(collect.RegisterOrGet(registry, &m.messages), collect.RegisterOrGet(registry, &m.findings), collect.RegisterOrGet(registry, &m.others)); err != nil {
		return nil, fmt.Errorf("register the metrics of DHCP: %w", err)
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
	// From zero: the first of a kind is no increase() of a counter that was not there.
	for _, stage := range findings {
		m.findings.WithLabelValues(string(stage))
	}
	return m, nil
}

// count counts one message; nil Metrics count nothing.
func (m *Metrics) count(kind dhcpv4.MessageType, o outcome) {
	if m == nil {
		return
	}
	if kind > lastType {
		kind = dhcpv4.MessageTypeNone
	}
	m.known[kind][o].Inc()
}

// find counts something wrong; other stages do not count.
func (m *Metrics) find(stage pxe.Stage) {
	if m == nil {
		return
	}
	if slices.Contains(findings, stage) {
		m.findings.WithLabelValues(string(stage)).Inc()
	}
}

// saw notes another server.
func (m *Metrics) saw(server netip.Addr, at float64) {
	if m != nil {
		m.others.WithLabelValues(server.String()).Set(at)
	}
}

// forget takes another server out.
func (m *Metrics) forget(server netip.Addr) {
	if m != nil {
		m.others.DeleteLabelValues(server.String())
	}
}

// outcomeOf classifies an answer that was sent, or not.
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
