// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestDeliveryOf(t *testing.T) {
	for _, tc := range []struct {
		name   string
		url    string
		ways   UpdateWays
		failed int32
		want   infrav1.UpdateDelivery
		why    string // a part of it
	}{
		{"no way", "http://a/b", UpdateWays{}, 0, "", "neither SimpleUpdate nor a push"},
		{"only by push", "http://a/b", UpdateWays{Push: true}, 0, infrav1.DeliveryPush, ""},
		{"only by push, after a failure", "http://a/b", UpdateWays{Push: true}, 1, infrav1.DeliveryPush, ""},
		{"fetches by whatever", "https://a/b", UpdateWays{Fetch: true}, 0, infrav1.DeliveryFetch, ""},
		{"fetches by this", "https://a/b", UpdateWays{Fetch: true, Protocols: []string{"TFTP", "HTTPS"}}, 0, infrav1.DeliveryFetch, ""},
		{"fetches by this in capitals", "HTTPS://a/b", UpdateWays{Fetch: true, Protocols: []string{"HTTPS"}}, 2, infrav1.DeliveryFetch, ""},
		{"fetches by others", "http://a/b", UpdateWays{Fetch: true, Protocols: []string{"TFTP", "HTTPS"}}, 0, "", "only fetches images by TFTP, HTTPS, and spec.firmware[].url has HTTP"},
		{"fetches by others, and is pushed to", "http://a/b", UpdateWays{Fetch: true, Push: true, Protocols: []string{"TFTP"}}, 0, infrav1.DeliveryPush, ""},
		{"fetches by this alone, after a failure", "http://a/b", UpdateWays{Fetch: true}, 1, infrav1.DeliveryFetch, ""},
		{"both", "http://a/b", UpdateWays{Fetch: true, Push: true}, 0, infrav1.DeliveryFetch, ""},
		{"both, after a failure", "http://a/b", UpdateWays{Fetch: true, Push: true}, 1, infrav1.DeliveryPush, ""},
		{"both, after two", "http://a/b", UpdateWays{Fetch: true, Push: true}, 2, infrav1.DeliveryFetch, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			component := infrav1.FirmwareComponent{URL: tc.url, Checksum: "sha256:" + strings.Repeat("1", 64)}
			got, why := DeliveryOf(component, tc.ways, tc.failed)
			if got != tc.want || !strings.Contains(why, tc.why) || (why == "") != (got != "") {
				t.Errorf("%q, %q; want %q, %q", got, why, tc.want, tc.why)
			}
		})
	}
}

// An image without a checksum is not pushed: its URL and the BMC's address have the same author, and
// Ingot would copy anything that it can read.
func TestNoPushWithoutChecksum(t *testing.T) {
	component := infrav1.FirmwareComponent{URL: "http://a/b"}
	for failed := range int32(4) {
		if got, why := DeliveryOf(component, UpdateWays{Push: true}, failed); got != "" || !strings.Contains(why, "need spec.firmware[].checksum") {
			t.Errorf("only by push, after %d failures: %q, %q", failed, got, why)
		}
		if got, why := DeliveryOf(component, UpdateWays{Fetch: true, Push: true}, failed); got != infrav1.DeliveryFetch {
			t.Errorf("both, after %d failures: %q, %q", failed, got, why)
		}
	}
}
