// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/token"
)

// Bootstrap data go to the IngotMachine that the Machine refers to, and not to one that
// only names it as its owner (I15).
func TestBootstrapOfAnotherMachine(t *testing.T) {
	objects := world()
	for _, o := range objects {
		if m, ok := o.(*clusterv1.Machine); ok {
			m.Spec.InfrastructureRef.Name = "its-own"
		}
	}
	s := newSite(t, objects...)
	a := s.agent(claimsOf(token.Install), here)
	opened(s, a)
	data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
	if reason != agentapi.ReasonNotReady {
		t.Errorf("refusal %q, %d bytes of user data", reason, len(data.UserData.Reveal()))
	}
}
