// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
)

// An interrupted first boot is kept with the report, and causes an event.
func TestBootedInterrupted(t *testing.T) {
	committed := func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil }
	s := newSite(t, append(world(committed), recorded("127.0.0.1"))...)
	claims := claimsOf(token.Booted)
	claims.Expiry = s.clock.Now().Add(token.BootedLifetime)
	reply, reason := call[agentapi.BootedReply](s.keyless(claims), agentapi.PathBooted,
		agentapi.Booted{InstanceID: instanceID, Hostname: "m1", Addresses: []string{"10.0.0.5"}, Interrupted: true})
	if !reply.Accepted || reason != "" {
		t.Fatalf("refused: %s", reason)
	}
	host, kept := s.host(), &infrav1.IngotHardware{}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(host), kept); err != nil {
		t.Fatal(err)
	}
	want := &infrav1.BootedSystem{InstanceID: instanceID, Hostname: "m1", ReportTime: kept.Spec.Booted.ReportTime, Addresses: []string{"10.0.0.5"}, Interrupted: ptr.To(true)}
	if diff := cmp.Diff(want, kept.Spec.Booted); diff != "" {
		t.Errorf("report kept in IngotHardware (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(inventory.SummarizeBooted(*want), host.Status.Booted); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if !s.eventWith(infrav1.ReasonFirstBootInterrupted) || !s.eventWith(infrav1.ReasonBooted) {
		t.Errorf("events: %q", s.seen)
	}
}

// The sentinel of a bootstrap provider is kept with the report. The Machine judges it.
func TestBootedSentinel(t *testing.T) {
	for name, tc := range map[string]struct {
		says *bool
		want infrav1.SentinelState
	}{
		"there":     {ptr.To(true), infrav1.SentinelPresent},
		"missing":   {ptr.To(false), infrav1.SentinelMissing},
		"not known": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			committed := func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil }
			s := newSite(t, append(world(committed), recorded("127.0.0.1"))...)
			claims := claimsOf(token.Booted)
			claims.Expiry = s.clock.Now().Add(token.BootedLifetime)
			reply, reason := call[agentapi.BootedReply](s.keyless(claims), agentapi.PathBooted,
				agentapi.Booted{InstanceID: instanceID, Hostname: "m1", Sentinel: tc.says})
			if !reply.Accepted || reason != "" {
				t.Fatalf("refused: %s", reason)
			}
			host, kept := s.host(), &infrav1.IngotHardware{}
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(host), kept); err != nil {
				t.Fatal(err)
			}
			if kept.Spec.Booted.Sentinel != tc.want || host.Status.Booted.Sentinel != tc.want {
				t.Errorf("kept %q, shown %q, want %q", kept.Spec.Booted.Sentinel, host.Status.Booted.Sentinel, tc.want)
			}
			// A report whose answer was lost is repeated, by a later boot too.
			first := kept.Spec.Booted.DeepCopy()
			call[agentapi.BootedReply](s.keyless(claims), agentapi.PathBooted,
				agentapi.Booted{InstanceID: instanceID, Hostname: "m1", Interrupted: true, Sentinel: ptr.To(tc.want != infrav1.SentinelPresent)})
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(host), kept); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, kept.Spec.Booted); diff != "" {
				t.Errorf("after a second report (-first +kept):\n%s", diff)
			}
		})
	}
}

// An agent's facts keep the address and the report of the present claim's system, and remove the report of
// an earlier claim.
func TestFactsAndReport(t *testing.T) {
	for name, tc := range map[string]struct {
		instance string
		stays    bool
	}{
		"of the present claim": {instanceID, true},
		"of an earlier tenant": {orderID, false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := recorded("127.0.0.1")
			facts.Spec.Booted = &infrav1.BootedSystem{InstanceID: tc.instance, ReportTime: metav1.NewTime(time.Unix(1000, 0))}
			facts.Spec.BMC = &infrav1.PinnedBMC{Address: "redfish://bmc", CertificateFingerprint: "sha256:x"}
			s := newSite(t, append(world(), facts)...)
			if reason := s.agent(claimsOf(token.Install), here).open(); reason != "" {
				t.Fatalf("refused: %s", reason)
			}
			kept := &infrav1.IngotHardware{}
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(facts), kept); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(facts.Spec.Address, kept.Spec.Address); diff != "" || kept.Spec.Architecture != "amd64" {
				t.Errorf("facts %+v, address (-want +got):\n%s", kept.Spec, diff)
			}
			if diff := cmp.Diff(facts.Spec.BMC, kept.Spec.BMC); diff != "" {
				t.Errorf("the pin of the BMC's certificate (-want +got):\n%s", diff)
			}
			if stays := kept.Spec.Booted != nil; stays != tc.stays {
				t.Errorf("the report stays: %t, want %t", stays, tc.stays)
			}
		})
	}
}
