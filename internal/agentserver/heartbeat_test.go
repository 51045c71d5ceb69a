// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// A thousand agents ask every few seconds whether to continue. The cache may confirm that; only a live read
// may deny it.
func TestProgressAsksTheCache(t *testing.T) {
	for name, tc := range map[string]struct {
		stale func(client.Object)
		// truth is what happened meanwhile.
		truth func(*infrav1.IngotHost)
		live  bool
		stop  bool
	}{
		"nothing happened": {},
		"the cache has not seen the session": {live: true, stale: func(o client.Object) {
			if host, ok := o.(*infrav1.IngotHost); ok {
				host.Spec.Order.AgentKey = ""
			}
		}},
		"the cache has not seen the order": {live: true, stale: func(o client.Object) {
			if host, ok := o.(*infrav1.IngotHost); ok {
				host.Spec.Order = nil
			}
		}},
		"the cache shows an old address": {live: true, stale: func(o client.Object) {
			if hardware, ok := o.(*infrav1.IngotHardware); ok {
				hardware.Spec.Address.IP = "192.0.2.99"
			}
		}},
		"the cache shows a pause that is over": {live: true, stale: func(o client.Object) {
			o.SetAnnotations(map[string]string{infrav1.MovePausedAnnotation: ""})
		}},
		"the order is gone": {live: true, stop: true, truth: func(h *infrav1.IngotHost) { h.Spec.Order = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, append(world(), recorded(here))...)
			a := s.agent(claimsOf(token.Install), here)
			opened(s, a)
			if tc.truth != nil {
				s.change(tc.truth)
			}
			s.mu.Lock()
			s.stale = tc.stale
			s.mu.Unlock()
			s.live.Store(0)
			for percent := range int32(3) {
				reply, reason := call[agentapi.ProgressReply](a, agentapi.PathProgress, agentapi.Progress{OrderID: orderID, Step: agentapi.StepWrite, Percent: percent})
				if reason != "" || reply.Stop != tc.stop {
					t.Errorf("refusal %q, called off: %t", reason, reply.Stop)
				}
			}
			if reads := s.live.Load(); (reads > 0) != tc.live {
				t.Errorf("%d live reads", reads)
			}
			if s.eventWith(infrav1.ReasonAgentRequestRejected) && !tc.stop {
				t.Error("people are told of a refusal that was none")
			}
		})
	}
}
