// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// An agent is known by the address recorded for it on its present network only. On a
// network where another DHCP server gives the addresses none is recorded, and the exchange
// must have shown that the host took it.
func TestAgentIsKnownByItsAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*infrav1.IngotHardware, *infrav1.IngotNetwork)
		shown  string
		want   agentapi.Reason
	}{
		"the recorded":                      {func(*infrav1.IngotHardware, *infrav1.IngotNetwork) {}, "", ""},
		"another address than the recorded": {func(f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) { f.Spec.Address.IP = "127.0.0.9" }, bootMAC, agentapi.ReasonTokenInvalid},
		"recorded on a former network": {func(f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			f.Spec.Address.IP, f.Spec.Address.NetworkName = "127.0.0.9", "old"
		}, bootMAC, ""},
		"recorded for a former NIC, and it is not of the network": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			f.Spec.Address.MAC, n.Spec.Subnet = "52:54:00:00:00:99", "192.0.2.0/24"
		}, bootMAC, agentapi.ReasonTokenInvalid},
		"on another network, where none is recorded": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			f.Spec.Address, n.Spec.Mode, n.Spec.Subnet = nil, infrav1.DHCPModeProxy, "192.0.2.0/24"
		}, bootMAC, agentapi.ReasonTokenInvalid},
		"on its network, where another server gives addresses":             {proxied, bootMAC, ""},
		"at an address that the other server gave to another machine":      {proxied, "52:54:00:00:00:99", agentapi.ReasonTokenInvalid},
		"at an address of the network that no DHCP exchange has shown yet": {proxied, "", agentapi.ReasonNotReady},
		"the network is unknown": {func(f *infrav1.IngotHardware, n *infrav1.IngotNetwork) { f.Spec.Address, n.Name = nil, "gone" }, bootMAC, agentapi.ReasonTokenInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			facts, network := recorded(here), loopback()
			tc.change(facts, network)
			s := newSite(t, append(slices.DeleteFunc(world(), isNetwork), facts, network)...)
			s.hardware, _ = net.ParseMAC(tc.shown)
			if reason := s.agent(claimsOf(token.Install), here).open(); reason != tc.want {
				t.Errorf("answered %q, want %q", reason, tc.want)
			}
			if bound := s.host().Spec.Order.AgentKey != ""; bound != (tc.want == "") {
				t.Errorf("the order is bound to the key: %t", bound)
			}
		})
	}
}

// proxied makes the network one where another server gives the addresses.
func proxied(facts *infrav1.IngotHardware, network *infrav1.IngotNetwork) {
	facts.Spec.Address, network.Spec.Mode = nil, infrav1.DHCPModeProxy
}

func isNetwork(o client.Object) bool {
	_, is := o.(*infrav1.IngotNetwork)
	return is
}

// A change of the host's network or boot NIC does not interrupt a working agent, which uses the addresses
// of its order's boot. An agent without a session is rejected, and its order is dropped.
func TestAgentWorksOnAfterMove(t *testing.T) {
	ordered := func(h *infrav1.IngotHost) { h.Spec.Order.NetworkName, h.Spec.Order.BootMACAddress = "net", bootMAC }
	unnamed := func(*infrav1.IngotHost) {}
	moved := func(h *infrav1.IngotHost) {
		h.Spec.NetworkRef.Name, h.Spec.BootMACAddress = "new", "52:54:00:00:00:99"
	}
	elsewhere := loopback()
	elsewhere.Name, elsewhere.Spec.Subnet = "new", "192.0.2.0/24"
	for name, tc := range map[string]struct {
		order func(*infrav1.IngotHost)
		facts *infrav1.IngotHardware
		from  string
		early bool
		want  agentapi.Reason
	}{
		"by its recorded address":              {order: ordered, facts: recorded(here), from: here},
		"where another server gives them":      {order: ordered, from: here},
		"from another address than recorded":   {order: ordered, facts: recorded("127.0.0.9"), from: here, want: agentapi.ReasonTokenInvalid},
		"moved before it spoke":                {order: ordered, facts: recorded(here), from: here, early: true, want: agentapi.ReasonTokenInvalid},
		"an order that does not name its boot": {order: unnamed, facts: recorded(here), from: here, want: agentapi.ReasonTokenInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(world(tc.order), elsewhere.DeepCopy())
			if tc.facts != nil {
				objects = append(objects, tc.facts)
			}
			s := newSite(t, objects...)
			if tc.early {
				s.change(moved)
			}
			a := s.agent(claimsOf(token.Install), tc.from)
			reason := a.open()
			if reason == "" {
				s.change(moved)
			} else if tc.want == "" {
				t.Fatalf("session refused: %s", reason)
			}
			_, progress := call[agentapi.ProgressReply](a, agentapi.PathProgress, agentapi.Progress{OrderID: orderID, Step: agentapi.StepWrite})
			_, bootstrap := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
			_, report := call[agentapi.Acknowledgement](a, agentapi.PathReport, agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded})
			if diff := cmp.Diff([]agentapi.Reason{tc.want, tc.want, tc.want}, []agentapi.Reason{progress, bootstrap, report}); diff != "" {
				t.Error(diff)
			}
			if committed := s.host().Spec.Claim.State == infrav1.ClaimProvisioned; committed != (tc.want == "") {
				t.Errorf("provisioned: %t", committed)
			}
		})
	}
}

// A live system that was started before the move gets its data, too.
func TestLiveSystemAfterMove(t *testing.T) {
	elsewhere := loopback()
	elsewhere.Name, elsewhere.Spec.Subnet = "new", "192.0.2.0/24"
	named := func(h *infrav1.IngotHost) { h.Spec.Order.NetworkName, h.Spec.Order.BootMACAddress = "net", bootMAC }
	s := newSite(t, append(world(lives, named), recorded(here), elsewhere)...)
	data := word(t, s.loaded(s.agent(claimsOf(token.Install), here)), "data=")
	s.change(func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = "new" })
	if code, _ := s.get(data, "127.0.0.9"); code != http.StatusGone {
		t.Errorf("another address: answered %d", code)
	}
	for _, when := range []string{"first", "again, its reply was lost"} {
		if code, _ := s.get(data, here); code != http.StatusOK {
			t.Errorf("%s: answered %d", when, code)
		}
	}
}
