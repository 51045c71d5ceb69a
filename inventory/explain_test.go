// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// What people are told when a server is switched off after its order: an agent that
// was never heard has reported nothing.
func TestSayEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		order infrav1.HostOrder
		want  string
	}{
		"done":       {infrav1.HostOrder{Result: &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded}}, "the agent has reported the end of its order to install"},
		"no word":    {infrav1.HostOrder{Result: &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonNoAgentContact}}, "the order to install has failed (NoAgentContact)"},
		"two agents": {infrav1.HostOrder{Revoked: new(true)}, "two agents came with the same token, so neither is trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.order.Kind = infrav1.OrderInstall
			if _, got := sayEnded(&input{order: &tc.order}); got != tc.want {
				t.Errorf("said %q, want %q", got, tc.want)
			}
		})
	}
}
