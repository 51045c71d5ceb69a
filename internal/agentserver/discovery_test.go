// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// The token of an unknown machine allows a report and an order to do nothing, even next to a host that is
// being installed.
func TestUnknownClientMayReportOnly(t *testing.T) {
	s := newSite(t, world()...)
	before := s.host()
	// The order id is the installing host's, in case it is looked up.
	for name, claims := range map[string]token.Claims{
		"of the network":          {Host: "net", Purpose: token.Discover, OrderID: bootMAC},
		"that names a host":       {Namespace: "metal", Host: "h1", Purpose: token.Discover, OrderID: bootMAC},
		"that names its order":    {Namespace: "metal", Host: "h1", Purpose: token.Discover, OrderID: before.Spec.Order.ID, Attempt: before.Spec.Order.Attempt},
		"that names its instance": {Namespace: "metal", Host: "h1", Purpose: token.Discover, OrderID: before.Spec.Order.ID, InstanceID: instanceID, Attempt: before.Spec.Order.Attempt},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.agent(claims, "127.0.0.1")
			if reason := a.open(); reason == "" {
				t.Error("a session was opened on a network that is not of mode Discover")
			}
			order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
			if reason != "" || order.Kind != agentapi.Discover || order.Install != nil || order.Clean != nil || order.InstanceID != "" {
				t.Errorf("order %+v, %s", order, reason)
			}
			for path, in := range map[string]any{
				agentapi.PathBootstrap: agentapi.BootstrapRequest{OrderID: claims.OrderID},
				agentapi.PathBooted:    agentapi.Booted{InstanceID: instanceID, Hostname: "h", Addresses: []string{"127.0.0.1"}},
			} {
				if _, reason := call[agentapi.Bootstrap](a, path, in); reason != agentapi.ReasonTokenInvalid {
					t.Errorf("%s: %q", path, reason)
				}
			}
			if _, reason := call[agentapi.ProgressReply](a, agentapi.PathProgress, agentapi.Progress{OrderID: order.ID}); reason != "" {
				t.Errorf("progress: %s", reason)
			}
			ack, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, agentapi.Report{OrderID: claims.OrderID, Outcome: agentapi.Succeeded})
			if reason != "" || ack.Action != agentapi.Restart {
				t.Errorf("acknowledged with %+v, %s", ack, reason)
			}
		})
	}
	if after := s.host(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the host was changed: %+v", after.Spec)
	}
}

// A client without a key, or with an expired token, is rejected.
func TestUnknownClientRefused(t *testing.T) {
	s := newSite(t)
	late := token.Claims{Host: "net", Purpose: token.Discover, OrderID: bootMAC, Expiry: s.clock.Now().Add(-time.Second)}
	inTime := late
	inTime.Expiry = s.clock.Now().Add(time.Minute)
	for name, a := range map[string]*agent{"no key": s.keyless(inTime), "late": s.agent(late, "127.0.0.1")} {
		for path, in := range map[string]any{
			agentapi.PathSession: agentapi.SessionRequest{Hardware: found()}, agentapi.PathOrder: agentapi.OrderRequest{},
			agentapi.PathProgress: agentapi.Progress{OrderID: bootMAC}, agentapi.PathReport: agentapi.Report{OrderID: bootMAC, Outcome: agentapi.Succeeded},
		} {
			if _, reason := call[agentapi.Session](a, path, in); reason != agentapi.ReasonTokenInvalid {
				t.Errorf("%s: %s: %q", name, path, reason)
			}
		}
	}
	// Conversely, the token of an order opens no session of an unknown machine.
	order := s.agent(token.Claims{Namespace: "", Host: "net", Purpose: token.Inspect, OrderID: bootMAC}, "127.0.0.1")
	if status, _ := order.post(agentapi.PathSession, []byte(`{}`)); status == http.StatusOK {
		t.Error("a token for an inspection was taken for an unknown client's")
	}
	hosts := &infrav1.IngotHostList{}
	if err := s.client.List(t.Context(), hosts, client.InNamespace("metal")); err != nil || len(hosts.Items) > 0 {
		t.Errorf("%d hosts, %v", len(hosts.Items), err)
	}
}
