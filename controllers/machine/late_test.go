// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Between selection and claim, hours may pass: host, hardware and cluster are checked again, and a
// host that no longer fits is not claimed.
func testLateClaim(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	const instance = "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"
	elsewhere := &metav1.LabelSelector{MatchLabels: map[string]string{"hall": "2"}}
	cluster := func(change func(*infrav1.IngotClusterSpec)) func(*site) {
		return func(s *site) {
			c := &infrav1.IngotCluster{}
			s.must(s.api.Get(s.ctx, s.key("c"), c))
			change(&c.Spec)
			s.must(s.api.Update(s.ctx, c))
		}
	}
	hardware := func(change func(*infrav1.IngotHardwareSpec)) func(*site) {
		return func(s *site) {
			facts := &infrav1.IngotHardware{}
			s.must(s.api.Get(s.ctx, s.key("h1"), facts))
			change(&facts.Spec)
			s.must(s.api.Update(s.ctx, facts))
		}
	}
	small := func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("64Gi"))}}
	}
	for name, tc := range map[string]struct {
		machine func(*clusterv1.Machine, *infrav1.IngotMachine)
		change  func(*site)
		want    string // why the intent is cleared; empty: the host is claimed
	}{
		"nothing has changed": {},
		"the cluster's part of the inventory": {
			change: cluster(func(c *infrav1.IngotClusterSpec) { c.HostSelector = elsewhere }), want: "not selected by hostSelector of the IngotCluster"},
		"no host for control planes": {
			machine: func(o *clusterv1.Machine, _ *infrav1.IngotMachine) {
				o.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
			},
			change: cluster(func(c *infrav1.IngotClusterSpec) { c.ControlPlaneSelector = elsewhere }), want: "not selected by controlPlaneSelector of the IngotCluster"},
		"a worker asks nothing of that": {
			change: cluster(func(c *infrav1.IngotClusterSpec) { c.ControlPlaneSelector = elsewhere })},
		"the machine's labels": {
			machine: func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
				m.Spec.HostSelector = &infrav1.HostSelector{MatchLabels: elsewhere.MatchLabels}
			}, want: "not selected by hostSelector of the IngotMachine"},
		"a verified boot": {
			change: cluster(func(c *infrav1.IngotClusterSpec) { c.BootTrust = infrav1.BootTrustVerified }), want: "no verified boot"},
		"too little memory": {machine: small, want: "0 memory of 64Gi"},
		"memory was added": {
			machine: small, change: hardware(func(h *infrav1.IngotHardwareSpec) { h.MemoryBytes = 64 << 30 })},
		"its disk was taken out": {
			change: hardware(func(h *infrav1.IngotHardwareSpec) { h.Disks = nil }), want: "disk"},
		"no facts": {
			change: func(s *site) {
				s.must(s.api.Delete(s.ctx, &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "h1"}}))
			}, want: "its IngotHardware does not exist"},
		"another cluster's data": {
			change: func(s *site) {
				s.editHost("h1", func(h *infrav1.IngotHost) { h.Spec.Record.LastClusterName = "other" })
				s.available("h1")
			}, want: "not cleaned since it served cluster other"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, cfg, scheme)
			s.host("h1", "a")
			s.machine("m", func(o *clusterv1.Machine, m *infrav1.IngotMachine) {
				m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: instance}.String()
				if tc.machine != nil {
					tc.machine(o, m)
				}
			})
			if tc.change != nil {
				tc.change(s)
			}
			s.settle("m")
			claims := s.claimsOn("m")
			if tc.want == "" {
				if len(claims) != 1 {
					t.Errorf("not claimed: %q", s.recorded)
				}
				return
			}
			if len(claims) != 0 || s.get("m").Spec.ProviderID != "" {
				t.Errorf("claims %v, providerID %q", claims, s.get("m").Spec.ProviderID)
			}
			s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, "")
			if n := s.eventCount(infrav1.ReasonNotClaimed); n != 1 || !strings.Contains(strings.Join(s.recorded, "\n"), tc.want) {
				t.Errorf("%d times NotClaimed, want %q: %q", n, tc.want, s.recorded)
			}
		})
	}
}
