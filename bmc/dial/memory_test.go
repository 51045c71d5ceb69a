// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"fmt"
	"testing"
	"time"
)

// TestSecondChoiceExpires shows that a protocol other than the first probed one is
// remembered for a while.
func TestSecondChoiceExpires(t *testing.T) {
	var m memory
	start := time.Unix(1_000_000, 0)
	m.put("first", "redfish", true, start)
	m.put("second", "ipmi", false, start)
	for _, tt := range []struct {
		after         time.Duration
		first, second bool
	}{
		{0, true, true}, {secondChoice - 1, true, true}, {secondChoice, true, false}, {1000 * time.Hour, true, false},
	} {
		if _, ok := m.get("first", start.Add(tt.after)); ok != tt.first {
			t.Errorf("the first choice after %s: %v", tt.after, ok)
		}
		if _, ok := m.get("second", start.Add(tt.after)); ok != tt.second {
			t.Errorf("the second choice after %s: %v", tt.after, ok)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	now := time.Now()
	for i := range maxFound + 10 {
		m.put(fmt.Sprint(i), "redfish", true, now)
	}
	m.put("newest", "redfish", true, now)
	if len(m.m) > maxFound {
		t.Errorf("%d addresses are remembered, want at most %d", len(m.m), maxFound)
	}
	if _, ok := m.get("newest", now); !ok {
		t.Error("the newest is not remembered")
	}
}
