// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"github.com/ingot-metal/ingot/controllers/token"
)

// An agent is known by the address recorded for it on its present network only: on
// one where another DHCP server gives the addresses, none is.
func TestAgentIsKnownByItsAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		network string
		refused bool
	}{
		"another address than the recorded": {"net", true},
		"recorded on a former network":      {"old", false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := recorded("127.0.0.9")
			facts.Spec.Address.NetworkName = tc.network
			s := newSite(t, append(world(), facts)...)
			if reason := s.agent(claimsOf(token.Install), here).open(); (reason != "") != tc.refused {
				t.Errorf("answered %q, want refused: %t", reason, tc.refused)
			}
		})
	}
}
