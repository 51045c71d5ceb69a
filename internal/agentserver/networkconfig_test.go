// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"testing"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// The agent gets the claim's network configuration, if there is one.
func TestNetworkConfigOfTheClaim(t *testing.T) {
	const config = "version: 2\nethernets:\n"
	for name, tc := range map[string]struct {
		network *infrav1.ClaimedNetwork
		want    string
	}{
		"none":   {nil, ""},
		"frozen": {&infrav1.ClaimedNetwork{Config: config, Addresses: []string{"10.20.3.7"}}, config},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, world(func(h *infrav1.IngotHost) { h.Spec.Claim.Network = tc.network })...)
			a := s.agent(claimsOf(token.Install), here)
			if reason := a.open(); reason != "" {
				t.Fatalf("session refused: %s", reason)
			}
			data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
			if reason != "" || data.NetworkConfig != tc.want {
				t.Errorf("network %q, refusal %q, want %q", data.NetworkConfig, reason, tc.want)
			}
		})
	}
}
