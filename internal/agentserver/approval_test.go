// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
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
		{"installed, without an approval", agentapi.Succeeded, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, world(func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{infrav1.ApproveAnnotation: "2026-01-02T03:04:05Z"} // a takeover
				h.Spec.Commands = []infrav1.HostCommand{{Name: "approve", RequestTime: metav1.Unix(1000, 0)}}
				if c.value != "" {
					h.Spec.Commands[0].InstanceIDs = strings.Split(c.value, ",")
				}
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
			host := s.host()
			if stays := len(lifecycle.ApprovedInstances(host)) > 0; stays != c.stays {
				t.Errorf("the approval of instances stays: %t, want %t", stays, c.stays)
			}
			if host.Annotations[infrav1.ApproveAnnotation] == "" || len(host.Spec.Commands) != 1 {
				t.Errorf("another command is gone: %v %+v", host.Annotations, host.Spec.Commands)
			}
		})
	}
}
