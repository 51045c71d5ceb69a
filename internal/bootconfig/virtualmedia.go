// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"context"
	"net"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
)

// MediaToken returns the secret part of the URL of the host's CD image, for its present order. Without an
// order it is not valid.
func MediaToken(keys token.Keys, host *infrav1.IngotHost) string {
	return keys.MediaToken(host.Spec.BootMACAddress, mediaClaims(host))
}

func mediaClaims(host *infrav1.IngotHost) token.Claims {
	claims := token.Claims{Namespace: host.Namespace, Host: host.Name}
	if order := host.Spec.Order; order != nil {
		claims.OrderID, claims.Attempt = order.ID, order.Attempt
	}
	return claims
}

// HostByToken implements pxe.MediaDirectory. It returns the image while the host boots by virtual media, the
// order of the ticket is open, and no agent works on it. A second agent with a token of the same order
// would have both revoked.
func (d *Directory) HostByToken(ticket string) (pxe.Host, bool) {
	address, ok := token.MediaTokenMAC(ticket)
	if !ok {
		return pxe.Host{}, false
	}
	hosts := &infrav1.IngotHostList{}
	if err := d.Cache.List(context.Background(), hosts, client.MatchingFields{index.HostByMAC: address}, client.UnsafeDisableDeepCopy); err != nil {
		d.Log.Error(err, "Could not look up a boot MAC address", "mac", address)
		return pxe.Host{}, false
	}
	mac, err := net.ParseMAC(address)
	if err != nil || len(hosts.Items) != 1 {
		return pxe.Host{}, false
	}
	host := &hosts.Items[0]
	plan := d.plan(host)
	switch {
	case isDuplicate(host), host.Spec.BootMethod != infrav1.BootMethodVirtualMedia, plan.Kind != pxe.Agent, host.Spec.Order.AgentKey != "",
		!d.Keys.IsMediaToken(ticket, address, mediaClaims(host)):
		return pxe.Host{}, false
	}
	return pxe.Host{Namespace: host.Namespace, Name: host.Name, MAC: mac, Plan: plan}, true
}
