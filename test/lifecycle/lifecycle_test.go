// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "testing"

// TestLifecycle runs the scenes on one management cluster, one after the other.
func TestLifecycle(t *testing.T) {
	plane := NewPlane(t)
	// First: its manager sees all namespaces, and the servers of each site have the same MAC
	// addresses.
	t.Run("Tenant", func(t *testing.T) { testTenant(t, plane) })
	t.Run("Claims", func(t *testing.T) { testClaims(t, plane) })
	t.Run("StatusLost", func(t *testing.T) { testStatusLost(t, plane) })
	t.Run("Secrets", func(t *testing.T) { testSecrets(t, plane) })
	t.Run("Upgraded", func(t *testing.T) { testUpgraded(t, plane) })
	t.Run("Paused", func(t *testing.T) { testPaused(t, plane) })
	t.Run("Mirror", func(t *testing.T) { testMirror(t, plane) })
	t.Run("Live", func(t *testing.T) { testLive(t, plane) })
	t.Run("Protocols", func(t *testing.T) { testProtocols(t, plane) })
	t.Run("IPv6", func(t *testing.T) { testIPv6(t, plane) })
	t.Run("Kills", func(t *testing.T) { testKills(t, plane) })
}
