// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/token"
)

// I8: an agent is told all instances of the host whose markers it may find, and the one
// whose disk a person has given up; that approval goes with the install that used it, and
// not with one that failed.
func TestReleasedInstances(t *testing.T) {
	const (
		first, last, approved = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002", "33333333-0000-4000-8000-000000000003"
	)
	for _, c := range []struct {
		name    string
		outcome agentapi.Outcome
		value   string
		stays   bool
	}{
		{"installed", agentapi.Succeeded, approved, false},
		{"failed", agentapi.Failed, approved, true},
		{"installed, two approvals", agentapi.Succeeded, approved + ",damaged-0123456789abcdef", false},
		{"installed, and another approval", agentapi.Succeeded, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, world(func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{infrav1.ApproveAnnotation: c.value}
				h.Spec.Record = &infrav1.HostRecord{EarlierInstanceIDs: []string{first}, LastInstanceID: last}
			})...)
			a := s.agent(claimsOf(token.Install), here)
			opened(s, a)
			order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
			if reason != "" || order.Install == nil {
				t.Fatalf("refusal %q, order %+v", reason, order)
			}
			want := []string{first, last}
			if c.value != "" {
				want = append(want, strings.Split(c.value, ",")...)
			}
			if diff := cmp.Diff(want, order.Install.ReleasedInstances); diff != "" {
				t.Errorf("released (-want +got):\n%s", diff)
			}
			report := agentapi.Report{OrderID: orderID, Outcome: c.outcome, Reason: agentapi.FailureImageUnavailable}
			if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report); reason != "" {
				t.Fatalf("report: %s", reason)
			}
			if _, stays := s.host().Annotations[infrav1.ApproveAnnotation]; stays != c.stays {
				t.Errorf("the approval stays: %t, want %t", stays, c.stays)
			}
		})
	}
}
