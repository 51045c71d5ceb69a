// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe_test

import (
	"net/netip"
	"testing"

	"github.com/ingot-metal/ingot/pxe"
)

// The IP family of an agent's session depends on the host's addresses and the request.
func TestAgentServer(t *testing.T) {
	const four, six = "192.0.2.1:8843", "[2001:db8::1]:8843"
	subnet, address := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.17/24")
	prefix := netip.MustParsePrefix("2001:db8::/64")
	given := pxe.IPv6{Mode: pxe.Stateful, Subnet: prefix, Address: netip.MustParseAddr("2001:db8::17")}
	missing := pxe.IPv6{Mode: pxe.Stateful, Subnet: prefix}
	made := pxe.IPv6{Mode: pxe.Stateless, Subnet: prefix}
	for name, tc := range map[string]struct {
		host           pxe.Host
		off            bool
		byIPv4, byIPv6 string
		only           bool
	}{
		"IPv4 alone":                       {host: pxe.Host{Subnet: subnet, Address: address}, byIPv4: four, byIPv6: four},
		"both, recorded":                   {host: pxe.Host{Subnet: subnet, Address: address, IPv6: given}, byIPv4: four, byIPv6: six},
		"both, IPv6 is not listened on":    {host: pxe.Host{Subnet: subnet, Address: address, IPv6: given}, off: true, byIPv4: four, byIPv6: four},
		"both, not recorded yet":           {host: pxe.Host{Subnet: subnet, Address: address, IPv6: missing}, byIPv4: four, byIPv6: four},
		"both, IPv6 is made":               {host: pxe.Host{Subnet: subnet, Address: address, IPv6: made}, byIPv4: four, byIPv6: four},
		"another's IPv4, IPv6 is made":     {host: pxe.Host{Mode: pxe.Proxy, Subnet: subnet, IPv6: made}, byIPv4: four, byIPv6: six},
		"another's IPv4, IPv6 is recorded": {host: pxe.Host{Mode: pxe.Proxy, Subnet: subnet, IPv6: given}, byIPv4: four, byIPv6: six},
		"IPv6 alone, recorded":             {host: pxe.Host{IPv6: given}, byIPv4: six, byIPv6: six, only: true},
		"IPv6 alone, made":                 {host: pxe.Host{IPv6: made}, byIPv4: six, byIPv6: six, only: true},
		"IPv6 alone, not listened on":      {host: pxe.Host{IPv6: made}, off: true, only: true},
		"nothing is known":                 {host: pxe.Host{}, byIPv4: four, byIPv6: four},
	} {
		t.Run(name, func(t *testing.T) {
			tc.host.Plan.Agent = pxe.AgentBoot{Server: four, ServerIPv6: six}
			if tc.off {
				tc.host.Plan.Agent.ServerIPv6 = ""
			}
			if got := tc.host.AgentServer(false); got != tc.byIPv4 {
				t.Errorf("by IPv4 it goes to %q, want %q", got, tc.byIPv4)
			}
			if got := tc.host.AgentServer(true); got != tc.byIPv6 {
				t.Errorf("by IPv6 it goes to %q, want %q", got, tc.byIPv6)
			}
			if got := tc.host.IsIPv6Only(); got != tc.only {
				t.Errorf("IPv6 alone: %v, want %v", got, tc.only)
			}
		})
	}
}
