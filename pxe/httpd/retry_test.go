// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The longer an image has been coming, the less often its clients ask; and they are told
// different seconds, all of the range alike.
func TestRetryAfter(t *testing.T) {
	const last = 1 - 1.0/(1<<53) // the largest share that there is
	for _, tc := range []struct {
		name string
		wait time.Duration
		want []int // for shares from 0 to the last
	}{
		{"just asked for", whileFetching(0), []int{2, 3, 4}},
		{"after some seconds", whileFetching(20 * time.Second), []int{2, 3, 4}},
		{"a clock that went back", whileFetching(-time.Hour), []int{2, 3, 4}},
		{"after half a minute", whileFetching(39 * time.Second), []int{3, 5, 6}},
		{"after a minute", whileFetching(time.Minute), []int{6, 9, 12}},
		{"after hours", whileFetching(5 * time.Hour), []int{10, 15, 20}},
		{"no room", retryRoom, []int{10, 15, 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := []int{spread(tc.wait, 0), spread(tc.wait, 0.5), spread(tc.wait, last)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
