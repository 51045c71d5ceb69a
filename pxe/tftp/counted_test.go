// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	pin "github.com/pin/tftp/v3"

	"github.com/ingot-metal/ingot/pxe/tftp"
	"github.com/ingot-metal/ingot/test/eventually"
)

// Metrics have labels for the outcome, but not for name or address.
func TestTransfersAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := tftp.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	content := random(3000)
	address, _ := startServer(t, tftp.Server{Files: memory{"loader": content}, Absent: []string{"boot-from-disk"}, Metrics: metrics})
	for _, name := range []string{"loader", "loader", "gone", "boot-from-disk"} {
		c, err := pin.NewClient(address)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		transfer, err := c.Receive(name, "octet")
		if err != nil {
			continue
		}
		if _, err := transfer.WriteTo(&got); err == nil && !bytes.Equal(got.Bytes(), content) {
			t.Errorf("%s came damaged", name)
		}
	}
	want := `
# HELP ingot_tftp_sent_bytes_total Bytes of files that TFTP clients have acknowledged.
# TYPE ingot_tftp_sent_bytes_total counter
ingot_tftp_sent_bytes_total 6000
# HELP ingot_tftp_transfers_in_flight Running TFTP transfers.
# TYPE ingot_tftp_transfers_in_flight gauge
ingot_tftp_transfers_in_flight 0
# HELP ingot_tftp_transfers_total TFTP requests, by outcome.
# TYPE ingot_tftp_transfers_total counter
ingot_tftp_transfers_total{outcome="aborted"} 0
ingot_tftp_transfers_total{outcome="absent"} 1
ingot_tftp_transfers_total{outcome="busy"} 0
ingot_tftp_transfers_total{outcome="failed"} 0
ingot_tftp_transfers_total{outcome="refused"} 1
ingot_tftp_transfers_total{outcome="sent"} 2
ingot_tftp_transfers_total{outcome="silent"} 0
ingot_tftp_transfers_total{outcome="slow"} 0
`
	// The last acknowledgment is still on its way when the client is done.
	eventually.Wait{Interval: 5 * time.Millisecond}.Until(t, "the counters", eventually.Works(func(context.Context) error {
		return testutil.GatherAndCompare(registry, strings.NewReader(want))
	}))
}
