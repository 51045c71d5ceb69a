// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// refusal is a rejected request, and its reason.
type refusal struct {
	// objects beside those of world, or, where there are several, in their place.
	objects []client.Object
	// agent is the caller; nil: one with a good token.
	agent func(*site) *agent
	// first is done before the request.
	first func(*site, *agent)
	do    func(*agent) agentapi.Reason
	want  agentapi.Reason
	// event is the expected event; empty: none.
	event string
}

func run(t *testing.T, cases map[string]refusal) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := tc.objects
			if len(objects) < 2 {
				objects = append(world(), objects...)
			}
			s := newSite(t, objects...)
			a := s.agent(claimsOf(token.Install), here)
			if tc.agent != nil {
				a = tc.agent(s)
			}
			if tc.first != nil {
				tc.first(s, a)
			}
			if got := tc.do(a); got != tc.want {
				t.Errorf("reason = %q, want %q", got, tc.want)
			}
			if tc.event != "" && !s.eventWith(tc.event) {
				t.Errorf("no event %s: %q", tc.event, s.seen)
			}
			if host := s.host(); host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioned {
				t.Error("the claim is committed")
			}
		})
	}
}

func open(a *agent) agentapi.Reason { return a.open() }

func order(a *agent) agentapi.Reason {
	_, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	return reason
}

func bootstrapData(a *agent) agentapi.Reason {
	_, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
	return reason
}

func report(a *agent) agentapi.Reason {
	_, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded})
	return reason
}

// Invalid clients are rejected (I14).
func TestRefusedCallers(t *testing.T) {
	install := claimsOf(token.Install)
	run(t, map[string]refusal{
		"no token": {agent: func(s *site) *agent { a := s.agent(install, here); a.token = ""; return a }, do: open, want: agentapi.ReasonTokenInvalid},
		"a token of somebody else's key": {agent: func(s *site) *agent { a := s.agent(install, here); a.token += "x"; return a },
			do: open, want: agentapi.ReasonTokenInvalid},
		"no client key":          {agent: func(s *site) *agent { return s.keyless(install) }, do: open, want: agentapi.ReasonTokenInvalid, event: infrav1.ReasonAgentRequestRejected},
		"another source address": {objects: []client.Object{recorded("127.0.0.9")}, do: open, want: agentapi.ReasonTokenInvalid, event: infrav1.ReasonAgentRequestRejected},
		"a host that is gone": {agent: func(s *site) *agent {
			c := install
			c.Host = "h2"
			return s.agent(c, here)
		}, do: open, want: agentapi.ReasonOrderGone},
		"order without a session":     {do: order, want: agentapi.ReasonBadRequest},
		"bootstrap without a session": {do: bootstrapData, want: agentapi.ReasonBadRequest},
		"report without a session":    {do: report, want: agentapi.ReasonBadRequest},
		"report of another order": {first: opened, do: func(a *agent) agentapi.Reason {
			_, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, agentapi.Report{OrderID: instanceID, Outcome: agentapi.Succeeded})
			return reason
		}, want: agentapi.ReasonBadRequest},
	})
}

// Valid clients get only what the host's state allows (I5, I6, I8, I15).
func TestRefusedByTheLedger(t *testing.T) {
	inspecting := func(h *infrav1.IngotHost) { h.Spec.Claim, h.Spec.Order.Kind = nil, infrav1.OrderInspect }
	run(t, map[string]refusal{
		"bootstrap for an inspection": {objects: world(inspecting), agent: func(s *site) *agent { return s.agent(claimsOf(token.Inspect), here) },
			first: opened, do: bootstrapData, want: agentapi.ReasonOrderGone},
		"a token of the installed system": {agent: func(s *site) *agent { return s.agent(claimsOf(token.Booted), here) },
			do: bootstrapData, want: agentapi.ReasonTokenInvalid},
		"a report after the release has begun (I6)": {first: func(s *site, a *agent) {
			opened(s, a)
			s.change(func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
		}, do: report, want: agentapi.ReasonOrderGone},
		"bootstrap after the release has begun": {first: func(s *site, a *agent) {
			opened(s, a)
			s.change(func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
		}, do: bootstrapData, want: agentapi.ReasonOrderGone},
		"an order from before a move (I10)": {first: func(s *site, _ *agent) {
			s.change(func(h *infrav1.IngotHost) { h.Spec.Order.HostUID = "object-of-old" })
		}, do: open, want: agentapi.ReasonOrderGone},
		"another server (I8)": {do: func(a *agent) agentapi.Reason {
			_, reason := call[agentapi.Session](a, agentapi.PathSession, agentapi.SessionRequest{Hardware: agentapi.Hardware{NICs: []agentapi.NIC{{MAC: "52:54:00:00:00:77"}}}})
			return reason
		}, want: agentapi.ReasonHardwareMismatch, event: string(agentapi.ReasonHardwareMismatch)},
		"no disk to install to (I12)": {do: func(a *agent) agentapi.Reason {
			_, reason := call[agentapi.Session](a, agentapi.PathSession, agentapi.SessionRequest{Hardware: agentapi.Hardware{NICs: []agentapi.NIC{{MAC: bootMAC}}}})
			return reason
		}, want: agentapi.ReasonHardwareMismatch, event: "NoRootDisk"},
		"a machine that names another host (I1)":          {first: func(s *site, a *agent) { opened(s, a); rename(s) }, do: order, want: agentapi.ReasonNotReady},
		"bootstrap for a machine that names another host": {first: func(s *site, a *agent) { opened(s, a); rename(s) }, do: bootstrapData, want: agentapi.ReasonNotReady},
		"bootstrap data not there yet": {first: func(s *site, a *agent) {
			opened(s, a)
			must(s, s.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "bootstrap"}}))
		}, do: bootstrapData, want: agentapi.ReasonNotReady},
		"facts of an earlier host of this name": {objects: []client.Object{ofEarlierHost()}, do: open, want: agentapi.ReasonNotReady},
		"facts that cannot be read admit nobody": {first: func(s *site, _ *agent) {
			s.fail(func(o client.Object) error {
				if _, ok := o.(*infrav1.IngotHardware); ok {
					return errors.New("etcd is away")
				}
				return nil
			}, nil)
		}, do: open, want: agentapi.ReasonNotReady},
	})
}

func must(s *site, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func opened(s *site, a *agent) {
	s.t.Helper()
	if reason := a.open(); reason != "" {
		s.t.Fatalf("session refused: %s", reason)
	}
}

// ofEarlierHost is the IngotHardware of a deleted host of the same name.
func ofEarlierHost() *infrav1.IngotHardware {
	hardware := recorded(here)
	hardware.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "h1", UID: "gone", Controller: ptr.To(true)}}
	return hardware
}

func rename(s *site) {
	s.t.Helper()
	machine := &infrav1.IngotMachine{}
	must(s, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "metal", Name: "m1"}, machine))
	machine.Spec.ProviderID = "ingot://metal/h2/" + instanceID
	must(s, s.client.Update(s.t.Context(), machine))
}
