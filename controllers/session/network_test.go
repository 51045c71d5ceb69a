// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/token"
)

// An agent is known by the address recorded for it on its present network only; on one
// where another DHCP server gives the addresses none is, and any address of that network
// will do, but no other.
func TestAgentIsKnownByItsAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*infrav1.IngotHardware, *infrav1.IngotNetwork)
		refused bool
	}{
		"the recorded":                      {func(*infrav1.IngotHardware, *infrav1.IngotNetwork) {}, false},
		"another address than the recorded": {func(f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) { f.Spec.Address.IP = "127.0.0.9" }, true},
		"recorded on a former network": {func(f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			f.Spec.Address.IP, f.Spec.Address.NetworkName = "127.0.0.9", "old"
		}, false},
		"recorded for a former NIC, and it is not of the network": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			f.Spec.Address.MAC, n.Spec.Subnet = "52:54:00:00:00:99", "192.0.2.0/24"
		}, true},
		"on another network, where none is recorded": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			f.Spec.Address, n.Spec.Mode, n.Spec.Subnet = nil, infrav1.DHCPModeProxy, "192.0.2.0/24"
		}, true},
		"on its network, where none is recorded": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			f.Spec.Address, n.Spec.Mode = nil, infrav1.DHCPModeProxy
		}, false},
		"nobody knows the network": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) { f.Spec.Address, n.Name = nil, "gone" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			facts, network := recorded(here), loopback()
			tc.change(facts, network)
			s := newSite(t, append(slices.DeleteFunc(world(), isNetwork), facts, network)...)
			if reason := s.agent(claimsOf(token.Install), here).open(); (reason != "") != tc.refused {
				t.Errorf("answered %q, want refused: %t", reason, tc.refused)
			}
		})
	}
}

func isNetwork(o client.Object) bool {
	_, is := o.(*infrav1.IngotNetwork)
	return is
}
