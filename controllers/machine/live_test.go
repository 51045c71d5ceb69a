// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A live system is copied to the claim like an image. With unencrypted data it holds no host of a
// cluster that requires verified boots, neither at the selection nor after a change of the cluster.
func testLiveSystem(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "")
	live := &infrav1.LiveSystem{
		Kernel:        infrav1.LiveFile{URL: "https://images.example/k", Checksum: "sha256:" + strings.Repeat("1", 64)},
		Initrd:        infrav1.LiveFile{URL: "https://images.example/i", Checksum: "sha256:" + strings.Repeat("2", 64)},
		CommandLine:   "talos.config={dataURL}",
		DataTransport: infrav1.LiveHTTP,
	}
	s.machine("m1", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) { m.Spec.Image, m.Spec.Live = infrav1.Image{}, live })
	s.demand(infrav1.BootTrustVerified)
	s.settle("m1")
	s.want("m1", infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, infrav1.ReasonLiveDataNotVerified, "delete Machine m1")
	if s.eventCount(infrav1.ReasonLiveDataNotVerified) != 1 || s.get("m1").Spec.ProviderID != "" {
		t.Errorf("provider ID %q, events: %q", s.get("m1").Spec.ProviderID, s.recorded)
	}

	chosen := s.get("m1")
	chosen.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	s.must(s.api.Update(s.ctx, chosen))
	s.settle("m1")
	if s.get("m1").Spec.ProviderID != "" || len(s.claimsOn("m1")) != 0 {
		t.Errorf("claimed though the data would go in clear: %+v", s.get("m1").Spec)
	}

	s.demand(infrav1.BootTrustNetwork)
	s.settle("m1")
	claim := s.getHost("h1").Spec.Claim
	if claim == nil {
		t.Fatalf("no claim; events: %q", s.recorded)
	}
	if diff := cmp.Diff(live, claim.Live); diff != "" || claim.Image != (infrav1.Image{}) {
		t.Errorf("live system of the claim, with image %+v (-want +got):\n%s", claim.Image, diff)
	}
}

// demand sets the boot trust of the cluster.
func (s *site) demand(trust infrav1.BootTrust) {
	s.t.Helper()
	cluster := &infrav1.IngotCluster{}
	s.must(s.api.Get(s.ctx, s.key("c"), cluster))
	cluster.Spec.BootTrust = trust
	s.must(s.api.Update(s.ctx, cluster))
}

func TestExposesLiveData(t *testing.T) {
	live := func(transport infrav1.LiveTransport) *infrav1.LiveSystem {
		return &infrav1.LiveSystem{DataTransport: transport}
	}
	for name, tc := range map[string]struct {
		live  *infrav1.LiveSystem
		trust infrav1.BootTrust
		want  bool
	}{
		"an image, verified":     {nil, infrav1.BootTrustVerified, false},
		"in clear, trusted":      {live(infrav1.LiveHTTP), infrav1.BootTrustNetwork, false},
		"in clear, nothing said": {live(infrav1.LiveHTTP), "", false},
		"in clear, verified":     {live(infrav1.LiveHTTP), infrav1.BootTrustVerified, true},
		"not said how, verified": {live(""), infrav1.BootTrustVerified, true},
		"over TLS, verified":     {live(infrav1.LiveHTTPS), infrav1.BootTrustVerified, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{machine: &infrav1.IngotMachine{Spec: infrav1.IngotMachineSpec{Live: tc.live}},
				ingotCluster: &infrav1.IngotCluster{Spec: infrav1.IngotClusterSpec{BootTrust: tc.trust}}}
			if got := s.exposesLiveData(); got != tc.want {
				t.Errorf("overheard = %t, want %t", got, tc.want)
			}
		})
	}
}
