// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// testSlow: the components of an unhealthy server are read over several polls.
func testSlow(t *testing.T, on *testEnv) {
	for name, psu := range map[string]string{"well": "OK", "ailing": "Critical"} {
		t.Run(name, func(t *testing.T) { isKnownSlowly(t, on, psu) })
	}
}

// isKnownSlowly checks that a slow BMC is read over several calls, each soon after the last, and
// that its condition shows progress.
func isKnownSlowly(t *testing.T, on *testEnv, psu string) {
	m := newSimHost(t, on, "dell-idrac9")
	m.pool = bmc.NewPool(m.dial, bmc.PoolOptions{CallTimeout: time.Second, Pause: bmc.PauseOptions{After: 1}})
	t.Cleanup(func() { _ = m.pool.Close(context.Background()) })
	m.Reconciler.BMC = m.pool
	var beside atomic.Int32 // reads in a call, except of the system
	m.lab.SetFaults(labbmc.Faults{Hang: true, Match: func(method, path string) bool {
		if method != "GET" || strings.HasSuffix(path, "/redfish/v1/") || strings.Contains(path, "/Systems/") && strings.Count(path, "/") == 4 {
			beside.Store(0)
			return false
		}
		return beside.Add(1)%2 == 0
	}})
	m.lab.SetHealth("PSU 2", psu)
	told := map[string]bool{}
	for range 20 {
		m.tick()
		c := meta.FindStatusCondition(m.get("h").Status.Conditions, infrav1.HostBMCReachableCondition)
		switch {
		case c == nil:
		case c.Reason == infrav1.ReasonBMCResponding:
			if len(told) != 1 {
				t.Errorf("messages %v, want one that stays the same", told)
			}
			m.lab.SetFaults()
			return
		case c.Reason == infrav1.ReasonBMCBusy && strings.Contains(c.Message, "still reading the BMC"):
			told[c.Message] = true
		default:
			t.Fatalf("%s: %s", c.Reason, c.Message)
		}
		m.clock.Step(3 * m.timing().BMCBackoffFirst / 2)
	}
	t.Fatalf("never known, and told %v", told)
}
