// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// TestAdoptedInstall (I21): an order names the attempts that were rejected. A disk that the
// agent adopted commits the claim, and the system on it may report its first boot.
func TestAdoptedInstall(t *testing.T) {
	for name, adopted := range map[string]int32{"the ordered attempt": 2, "an earlier attempt": 1, "a later attempt": 5} {
		t.Run(name, func(t *testing.T) {
			rejected := func(h *infrav1.IngotHost) { h.Spec.Claim.RejectedAttempts = []int32{4} }
			s := newSite(t, append(world(rejected), recorded(here))...)
			a := s.agent(claimsOf(token.Install), here)
			opened(s, a)
			order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
			if reason != "" || !cmp.Equal([]int32{4}, order.Install.RejectedAttempts) {
				t.Fatalf("refusal %q, order %+v", reason, order.Install)
			}
			report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, RootDisk: &order.Install.RootDisk, AdoptedAttempt: adopted}
			for range 2 { // the second time its answer was lost
				ack, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report)
				if reason != "" || ack.Action != agentapi.BootDisk {
					t.Fatalf("refusal %q, %s", reason, ack.Action)
				}
			}
			claim := s.host().Spec.Claim
			if claim.State != infrav1.ClaimProvisioned || claim.Attempt != 2 || claim.ConfirmedTime.IsZero() {
				t.Errorf("claim %+v", claim)
			}
			claims := claimsOf(token.Booted)
			claims.Attempt, claims.Expiry = adopted, s.clock.Now().Add(token.BootedLifetime)
			reply, reason := call[agentapi.BootedReply](s.keyless(claims), agentapi.PathBooted, agentapi.Booted{InstanceID: instanceID, Hostname: "m1"})
			if !reply.Accepted || reason != "" {
				t.Errorf("the report of the first boot is refused: %s", reason)
			}
			claims.Attempt = 9
			if reply, _ := call[agentapi.BootedReply](s.keyless(claims), agentapi.PathBooted, agentapi.Booted{InstanceID: instanceID, Hostname: "m1"}); reply.Accepted {
				t.Error("the report of an attempt that is not on the disk is accepted")
			}
		})
	}
}
