// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// I10: during a pause no call of the agent API has an effect, and each answer asks the agent to wait.
func TestPaused(t *testing.T) {
	annotate := func(name string) func(*site, bool) {
		return func(s *site, on bool) {
			s.change(func(h *infrav1.IngotHost) {
				h.Annotations = nil
				if on {
					h.Annotations = map[string]string{name: ""}
				}
			})
		}
	}
	progress := func(a *agent) agentapi.Reason {
		reply, reason := call[agentapi.ProgressReply](a, agentapi.PathProgress, agentapi.Progress{OrderID: orderID, Step: agentapi.StepWrite, Percent: 50})
		if reply.Stop {
			return "called off for good"
		}
		return reason
	}
	for name, pause := range map[string]func(*site, bool){
		"by a person":                 annotate(clusterv1.PausedAnnotation),
		"for a move":                  annotate(infrav1.MovePausedAnnotation),
		"while clusterctl removes it": annotate(clusterctlv1.DeleteForMoveAnnotation),
		"with its cluster":            pauseCluster,
	} {
		for _, tc := range []struct {
			name  string
			do    func(*agent) agentapi.Reason
			first func(*site, *agent)
		}{
			{"session", open, func(*site, *agent) {}}, {"order", order, opened}, {"progress", progress, opened},
			{"bootstrap", bootstrapData, opened}, {"report", report, opened},
		} {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				s := newSite(t, world()...)
				a := s.agent(claimsOf(token.Install), here)
				tc.first(s, a)
				pause(s, true)
				before := s.host()
				if reason := tc.do(a); reason != agentapi.ReasonPaused {
					t.Errorf("refusal %q, want %s", reason, agentapi.ReasonPaused)
				}
				if after := s.host(); after.ResourceVersion != before.ResourceVersion {
					t.Errorf("a paused host was written to: %s", cmp.Diff(before, after))
				}
				pause(s, false)
				if reason := tc.do(a); reason != "" {
					t.Errorf("refusal %q after the pause", reason)
				}
			})
		}
	}
}

func pauseCluster(s *site, on bool) {
	s.t.Helper()
	cluster := &clusterv1.Cluster{}
	must(s, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "metal", Name: "c1"}, cluster))
	cluster.Spec.Paused = ptr.To(on)
	must(s, s.client.Update(s.t.Context(), cluster))
}
