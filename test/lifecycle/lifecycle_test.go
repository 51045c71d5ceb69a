// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/ingot-metal/ingot/test/needs"
)

// TestLifecycle runs scenes one after the other on one management cluster. Without INGOT_FULL it
// runs those that need all of Ingot at once; packages below cover the rest with smaller tests.
func TestLifecycle(t *testing.T) {
	plane := NewPlane(t)
	for _, scene := range []struct {
		name   string
		run    func(*testing.T, *Plane)
		always bool // also in make test
	}{
		// Tenant is first: its manager sees all namespaces, and the servers of each site have the
		// same MAC addresses.
		{name: "Tenant", run: testTenant},
		{name: "Claims", run: testClaims},
		{name: "StatusLost", run: testStatusLost},
		{name: "Secrets", run: testSecrets, always: true},
		{name: "Upgraded", run: testUpgraded},
		{name: "Paused", run: testPaused},
		{name: "Mirror", run: testMirror},
		{name: "Live", run: testLive},
		{name: "Protocols", run: testProtocols},
		{name: "IPv6", run: testIPv6},
		{name: "Kills", run: testKills, always: true},
		{name: "Log", run: testLog, always: true},
	} {
		t.Run(scene.name, func(t *testing.T) {
			if !scene.always {
				needs.Full(t)
			}
			scene.run(t, plane)
		})
	}
}
