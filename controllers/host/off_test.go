// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A BMC that says off of a live system is believed once it says so again a while later,
// however often it is asked in between.
func TestOff(t *testing.T) {
	const on, isOff, unknown = infrav1.PowerStateOn, infrav1.PowerStateOff, infrav1.PowerStateUnknown
	type reading struct {
		at     int // seconds
		power  infrav1.PowerState
		order  string // empty: none
		unsure bool
	}
	for name, readings := range map[string][]reading{
		"asked again at once":        {{0, isOff, "a", true}, {1, isOff, "a", true}, {29, isOff, "a", true}, {30, isOff, "a", false}},
		"on in between":              {{0, isOff, "a", true}, {20, on, "a", false}, {30, isOff, "a", true}, {60, isOff, "a", false}},
		"no answer in between":       {{0, isOff, "a", true}, {20, unknown, "a", false}, {25, "", "a", false}, {30, isOff, "a", false}},
		"of another order":           {{0, isOff, "a", true}, {30, isOff, "b", true}, {60, isOff, "b", false}},
		"without one in between":     {{0, isOff, "a", true}, {10, isOff, "", false}, {30, isOff, "a", true}},
		"a live system that is well": {{0, on, "a", false}, {30, on, "a", false}},
		"no live system":             {{0, isOff, "image", false}, {30, isOff, "image", false}},
	} {
		t.Run(name, func(t *testing.T) {
			var o off
			for _, r := range readings {
				var order *infrav1.HostOrder
				if r.order != "" {
					order = &infrav1.HostOrder{ID: r.order}
				}
				if r.order == "a" || r.order == "b" {
					order.LiveStartedAt = metav1.Unix(1, 0)
				}
				var unsure bool
				if o, unsure = o.seen(order, r.power, time.Unix(int64(1000+r.at), 0), 30*time.Second); unsure != r.unsure {
					t.Errorf("after %d s: unsure %t", r.at, unsure)
				}
			}
		})
	}
}
