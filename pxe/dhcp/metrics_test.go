// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe"
)

// values returns the metrics that are not zero, as "name{labels} value".
func values(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if value == 0 {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out = append(out, fmt.Sprintf("%s{%s} %g", strings.TrimPrefix(family.GetName(), "ingot_dhcp_"), strings.Join(labels, " "), value))
		}
	}
	return out
}

// increase() ignores the first sample of a series, so all kinds exist from the start.
func TestFindingsStartAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "ingot_dhcp_findings_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"AddressConflict": 0, "WrongNetwork": 0, "OtherDHCPServer": 0, "Failed": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	d := newDesk(t, testHost(pxe.LocalDisk))
	var err error
	if d.Metrics, err = NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	discover := message(dhcpv4.MessageTypeDiscover)
	for _, in := range []*dhcpv4.DHCPv4{
		discover, discover,
		message(dhcpv4.MessageTypeRequest, requested(right)),
		message(dhcpv4.MessageTypeRequest, requested(wrong)),
		message(dhcpv4.MessageTypeRequest, serverID(theirs), requested(wrong)),
		message(dhcpv4.MessageTypeRelease, ciaddr(right)),
		message(dhcpv4.MessageTypeDiscover, mac("52:54:00:ff:ff:ff")),
		message(dhcpv4.MessageTypeDiscover, giaddr("10.0.0.1")),
		message(dhcpv4.MessageType(99)),
	} {
		d.ask(in)
	}
	d.handle(&d.out, Query{Packet: []byte("rubbish")}, func(q Query) (Answer, error) { return Reply(d.Identity, d.Directory, q) })
	d.out.fail = errors.New("network is unreachable")
	d.ask(discover)
	want := []string{
		"findings_total{Failed} 1", "findings_total{OtherDHCPServer} 1", "findings_total{WrongNetwork} 1",
		"messages_total{failed discover} 1", "messages_total{malformed other} 1", "messages_total{offer discover} 2",
		"messages_total{ack request} 1", "messages_total{nak request} 1", "messages_total{silent discover} 1",
		"messages_total{silent other} 1", "messages_total{silent release} 1", "messages_total{silent request} 1",
		"messages_total{unknown discover} 1", "other_server_seen_timestamp_seconds{192.0.2.2} 1e+06",
	}
	sorted := cmp.Transformer("sorted", func(in []string) map[string]bool {
		out := map[string]bool{}
		for _, s := range in {
			out[s] = true
		}
		return out
	})
	if diff := cmp.Diff(want, values(t, registry), sorted); diff != "" {
		t.Error(diff)
	}
	// A second server of the process continues the counters.
	again, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	again.count(dhcpv4.MessageTypeDiscover, outcomeOffer)
	if got := strings.Join(values(t, registry), "\n"); !strings.Contains(got, "messages_total{offer discover} 3") {
		t.Errorf("two servers count apart:\n%s", got)
	}
	registry = prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_dhcp_messages_total", Help: "something else"}))
	if _, err := NewMetrics(registry); err == nil {
		t.Error("metrics of another type are reused")
	}
}
