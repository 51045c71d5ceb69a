// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// TestLeaveInUse: an agent that found a system in use boots it, whatever its order. A caller that proved
// nothing gets the usual answer.
func TestLeaveInUse(t *testing.T) {
	refused := func(reason agentapi.Reason) *agentapi.Error { return &agentapi.Error{Reason: reason} }
	for name, tc := range map[string]struct {
		decision decision
		ends     bool
		boots    bool
	}{
		"may act":               {decision: decision{}, ends: true, boots: true},
		"a second key":          {decision: decision{revoke: true, refusal: refused(agentapi.ReasonKeyConflict)}, ends: true, boots: true},
		"a live system's":       {decision: decision{rebooted: true, refusal: refused(agentapi.ReasonOrderGone)}, ends: true, boots: true},
		"the order has ended":   {decision: decision{refusal: refused(agentapi.ReasonOrderGone)}, boots: true},
		"the order is revoked":  {decision: decision{refusal: refused(agentapi.ReasonKeyConflict)}, boots: true},
		"the token is no good":  {decision: decision{refusal: refused(agentapi.ReasonTokenInvalid)}},
		"its address not shown": {decision: decision{refusal: refused(agentapi.ReasonNotReady)}},
	} {
		t.Run(name, func(t *testing.T) {
			if same := protectSystemInUse(tc.decision, ""); same != tc.decision {
				t.Errorf("nothing in use, and the decision is %+v", same)
			}
			v := protectSystemInUse(tc.decision, instanceID)
			if (v.inUse != "") != tc.ends || (v.refusal.Action == agentapi.BootDisk) != tc.boots || v.revoke || v.rebooted {
				t.Errorf("decision %+v, refusal %+v", v, v.refusal)
			}
		})
	}
}

// TestRestartedServerBootsItsDisk (I21): an order of a backup meets a server that runs another system. Its
// agent boots the disk, now and the next time, the order ends and the host is held. This does not happen
// while managers have watched without a gap, or to a server that Ingot has booted since.
func TestRestartedServerBootsItsDisk(t *testing.T) {
	const other = "11111111-1111-4111-8111-111111111111"
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // of the order
	inspecting := func(h *infrav1.IngotHost) { h.Spec.Claim, h.Spec.Order.Kind = nil, infrav1.OrderInspect }
	bound := func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = firstKey }
	booted := func(h *infrav1.IngotHost) { h.Status.LastResetTime = metav1.NewTime(began.Add(2 * time.Hour)) }
	for name, tc := range map[string]struct {
		purpose token.Purpose
		host    []func(*infrav1.IngotHost)
		marker  string
		since   time.Time
		left    bool
	}{
		"inspection":                         {purpose: token.Inspect, host: []func(*infrav1.IngotHost){inspecting}, marker: other, since: began.Add(time.Hour), left: true},
		"install":                            {purpose: token.Install, marker: other, since: began.Add(time.Hour), left: true},
		"install that an agent took before":  {purpose: token.Install, host: []func(*infrav1.IngotHost){bound}, marker: instanceID, since: began.Add(time.Hour), left: true},
		"install that is adopted":            {purpose: token.Install, marker: instanceID, since: began.Add(time.Hour)},
		"watched all the time":               {purpose: token.Install, marker: other, since: began.Add(-time.Hour)},
		"booted by Ingot since":              {purpose: token.Install, host: []func(*infrav1.IngotHost){booted}, marker: other, since: began.Add(time.Hour)},
		"inspection, booted by Ingot since":  {purpose: token.Inspect, host: []func(*infrav1.IngotHost){inspecting, booted}, marker: other, since: began.Add(time.Hour)},
		"inspection of a server without any": {purpose: token.Inspect, host: []func(*infrav1.IngotHost){inspecting}, since: began.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			old := func(h *infrav1.IngotHost) { h.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour)) }
			s := newSite(t, append(world(append(tc.host, old)...), recorded(here))...)
			before := s.host().Spec.Order
			s.since = tc.since
			s.clock.SetTime(began.Add(3 * time.Hour))
			claims := claimsOf(tc.purpose)
			hardware := found()
			if tc.marker != "" {
				hardware.Disks[0].Marker = &agentapi.Marker{InstanceID: tc.marker, Attempt: 1, Complete: true}
			}
			for range 2 {
				a := s.agent(claims, here)
				refusal := refusalOf(a, agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: hardware})
				if got := refusal != nil && refusal.Action == agentapi.BootDisk; got != tc.left {
					t.Fatalf("refusal %+v, want to boot the disk: %t", refusal, tc.left)
				}
				if !tc.left {
					return
				}
			}
			order := s.host().Spec.Order
			if order.Result == nil || order.Result.Reason != infrav1.ReasonStateUnconfirmed || order.AgentKey != before.AgentKey || order.Revoked != nil {
				t.Errorf("order %+v", order)
			}
			if operation := s.host().Status.Operation; operation != nil {
				t.Errorf("the agent counts as heard: %+v", operation)
			}
			if !s.eventWith(infrav1.ReasonStateUnconfirmed) {
				t.Errorf("no event: %q", s.seen)
			}
		})
	}
}

// refusalOf opens a session and returns the refusal; nil: there is none.
func refusalOf(a *agent, request agentapi.SessionRequest) *agentapi.Error {
	a.s.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		a.s.t.Fatal(err)
	}
	status, answer := a.post(agentapi.PathSession, body)
	if status == http.StatusOK {
		return nil
	}
	refusal := &agentapi.Error{}
	if err := json.Unmarshal(answer, refusal); err != nil {
		a.s.t.Fatalf("status %d: %s: %v", status, answer, err)
	}
	return refusal
}
