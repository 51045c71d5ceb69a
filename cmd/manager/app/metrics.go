// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/pxe/collect"
)

// bmcCallSeconds is the histogram of BMC calls, by call and outcome.
const bmcCallSeconds = "ingot_bmc_call_duration_seconds"

// bmcMetrics makes an observer that measures every call to a BMC. A registry that
// has the metric already, of an earlier manager in this process, is used on.
func bmcMetrics(registry prometheus.Registerer) (bmc.Observer, error) {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    bmcCallSeconds,
		Help:    "Duration of calls to BMCs in seconds, by call and outcome.",
		Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, // a call ends after 30 s
	}, []string{"call", "outcome"})
	if err := collect.RegisterOrGet(registry, &calls); err != nil {
		return nil, fmt.Errorf("metric %s: %w", bmcCallSeconds, err)
	}
	return func(call bmc.Call) {
		calls.WithLabelValues(string(call.Name), string(call.Outcome)).Observe(call.Duration.Seconds())
	}, nil
}
