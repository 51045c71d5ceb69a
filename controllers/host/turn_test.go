// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Hosts that all come up at once are asked at moments of their own from then on,
// and each exactly once a poll.
func TestUntilTurn(t *testing.T) {
	const hosts, poll = 600, time.Minute
	start := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	seconds := make([]int, 60)
	for n := range hosts {
		uid, now := types.UID(fmt.Sprintf("host-%d", n)), start
		first := untilTurn(uid, now, poll)
		if first <= poll/2 || first > 3*poll/2 {
			t.Errorf("%s: first asked after %s", uid, first)
		}
		now = now.Add(first)
		seconds[now.Second()]++
		for _, late := range []time.Duration{0, time.Millisecond, time.Second, 10 * time.Second} {
			if got := untilTurn(uid, now.Add(late), poll); got != poll-late {
				t.Errorf("%s: %s after its moment it waits %s, want %s", uid, late, got, poll-late)
			}
		}
	}
	if busiest, quietest := slices.Max(seconds), slices.Min(seconds); busiest > 30 || quietest == 0 {
		t.Errorf("%d hosts by second of the minute, want about 10 in each: %v", hosts, seconds)
	}
}
