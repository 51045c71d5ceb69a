// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
)

// ordered is a host that boots by virtual media, with an open order.
func ordered(change func(*infrav1.IngotHost)) func(*infrav1.IngotHost, *infrav1.IngotHardware, *infrav1.IngotNetwork) {
	return func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
		h.Spec.BootMethod = infrav1.BootMethodVirtualMedia
		h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: orderID, Attempt: 2}
		if change != nil {
			change(h)
		}
	}
}

// An image is served for the right order only, while it is open.
func TestDisc(t *testing.T) {
	host := func(change func(*infrav1.IngotHost)) *infrav1.IngotHost {
		return oneHost(ordered(change))[0].(*infrav1.IngotHost)
	}
	ticket := MediaToken(newDirectory(t).Keys, host(nil))
	twin := host(nil)
	twin.Name = "twin"
	for name, tc := range map[string]struct {
		ticket string
		change func(*infrav1.IngotHost)
		twin   bool
		want   bool
	}{
		"its order is open":        {ticket, nil, false, true},
		"its agent has spoken":     {ticket, func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "k" }, false, false},
		"its order has ended":      {ticket, func(h *infrav1.IngotHost) { h.Spec.Order.Result = &infrav1.OrderResult{} }, false, false},
		"its order is revoked":     {ticket, func(h *infrav1.IngotHost) { h.Spec.Order.Revoked = ptr.To(true) }, false, false},
		"its order is gone":        {ticket, func(h *infrav1.IngotHost) { h.Spec.Order = nil }, false, false},
		"the next attempt":         {ticket, func(h *infrav1.IngotHost) { h.Spec.Order.Attempt = 3 }, false, false},
		"another order":            {ticket, func(h *infrav1.IngotHost) { h.Spec.Order.ID = instance }, false, false},
		"another method":           {ticket, func(h *infrav1.IngotHost) { h.Spec.BootMethod = "" }, false, false},
		"another host of its name": {ticket, func(h *infrav1.IngotHost) { h.Name = "g" }, false, false},
		"two hosts of one address": {ticket, nil, true, false},
		"a guess":                  {ticket[:13] + strings.Repeat("A", 43), nil, false, false},
		"no ticket":                {"agent", nil, false, false},
		"a ticket without an order": {MediaToken(newDirectory(t).Keys, host(func(h *infrav1.IngotHost) { h.Spec.Order = nil })),
			func(h *infrav1.IngotHost) { h.Spec.Order = nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := oneHost(ordered(tc.change))
			if tc.twin {
				objects = append(objects, twin)
			}
			d := newDirectory(t, objects...)
			got, ok := d.HostByToken(tc.ticket)
			if ok != tc.want {
				t.Fatalf("given: %v", ok)
			}
			if !ok {
				return
			}
			claims, err := d.Keys.Verify(got.Plan.Agent.Token.Reveal())
			if err != nil || claims.OrderID != orderID || claims.Purpose != token.Install || claims.Delivery != token.ByVirtualMedia || !claims.Expiry.Equal(now.Add(token.Lifetime)) {
				t.Errorf("token for %+v, %v", claims, err)
			}
			if got.MAC.String() != mac || got.Plan.Kind != pxe.Agent || got.Plan.Agent.Server == "" {
				t.Errorf("host %+v", got)
			}
		})
	}
}

// A host that boots from virtual media gets its token there, and not by the network.
func TestTokenByTheWay(t *testing.T) {
	for method, want := range map[infrav1.BootMethod]struct {
		way   pxe.BootMethod
		token bool
	}{
		"": {pxe.BootNetwork, true}, infrav1.BootMethodPXE: {pxe.BootNetwork, true},
		infrav1.BootMethodHTTP: {pxe.BootHTTP, true}, infrav1.BootMethodVirtualMedia: {pxe.BootVirtualMedia, false},
	} {
		t.Run(string(method), func(t *testing.T) {
			d := newDirectory(t, oneHost(ordered(func(h *infrav1.IngotHost) { h.Spec.BootMethod = method }))...)
			host, ok := d.Lookup(parse(t, mac))
			if !ok || host.Plan.Kind != pxe.Agent || host.Plan.Agent.Server == "" {
				t.Fatalf("got %+v, %v", host.Plan, ok)
			}
			if got := host.Plan.Agent; got.Method != want.way || (got.Token != "") != want.token {
				t.Errorf("%s, token: %v; want %s, %v", got.Method, got.Token != "", want.way, want.token)
			}
			if want.token {
				if claims, err := d.Keys.Verify(host.Plan.Agent.Token.Reveal()); err != nil || claims.Delivery != token.ByNetwork {
					t.Errorf("a token of the network says %q, %v", claims.Delivery, err)
				}
			}
		})
	}
}

// Only hosts that boot by HTTP get the unified image.
func TestUnified(t *testing.T) {
	file := pxe.File{SHA256: strings.Repeat("a", 64), Name: "agent.efi"}
	for method, want := range map[infrav1.BootMethod]pxe.File{
		"": {}, infrav1.BootMethodPXE: {}, infrav1.BootMethodVirtualMedia: {}, infrav1.BootMethodHTTP: file,
	} {
		t.Run(string(method), func(t *testing.T) {
			d := newDirectory(t, oneHost(ordered(func(h *infrav1.IngotHost) { h.Spec.BootMethod = method }))...)
			d.Unified = file
			host, ok := d.Lookup(parse(t, mac))
			if !ok || host.Plan.Agent.Unified != want {
				t.Errorf("got %+v, %v", host.Plan.Agent.Unified, ok)
			}
		})
	}
}
