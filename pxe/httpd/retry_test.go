// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Clients retry less often the longer the fetch takes, at uniformly distributed times.
func TestRetryAfter(t *testing.T) {
	const last = 1 - 1.0/(1<<53) // the largest random number
	for _, tc := range []struct {
		name string
		wait time.Duration
		want []int // for shares from 0 to the last
	}{
		{"just asked for", fetchRetryTime(0), []int{2, 3, 4}},
		{"after some seconds", fetchRetryTime(20 * time.Second), []int{2, 3, 4}},
		{"a clock that went back", fetchRetryTime(-time.Hour), []int{2, 3, 4}},
		{"after half a minute", fetchRetryTime(39 * time.Second), []int{3, 5, 6}},
		{"after a minute", fetchRetryTime(time.Minute), []int{6, 9, 12}},
		{"after hours", fetchRetryTime(5 * time.Hour), []int{10, 15, 20}},
		{"no room", retryFullCache, []int{10, 15, 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := []int{jitterSeconds(tc.wait, 0), jitterSeconds(tc.wait, 0.5), jitterSeconds(tc.wait, last)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
