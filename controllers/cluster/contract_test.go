// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// C07, M24, M25, M44: v1beta1 conditions match the v1beta2 conditions; no cluster failure is
// terminal (C08).
func testV1Beta1Conditions(s *site) {
	check := func(stage string, want map[clusterv1.ConditionType]string) {
		s.t.Helper()
		got := map[clusterv1.ConditionType]string{}
		c := s.settle("c")
		for _, condition := range c.GetV1Beta1Conditions() {
			got[condition.Type] = string(condition.Status) + " " + string(condition.Severity) + " " + condition.Reason
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.t.Errorf("%s: conditions of contract v1beta1 (-want +got):\n%s", stage, diff)
		}
		if old := c.Status.Deprecated.V1Beta1; old.FailureReason != nil || old.FailureMessage != nil {
			s.t.Errorf("%s: failed for good: %+v", stage, old)
		}
	}
	s.cluster("c")
	waiting := map[clusterv1.ConditionType]string{"Ready": "False Info WaitingForEndpoint", "EndpointReady": "False Info WaitingForEndpoint",
		"FailureDomainsReady": "True  NoFailureDomains", "Paused": "False  NotPaused"}
	check("waits for its endpoint", waiting)
	owner := s.owner("c")
	owner.Spec.Paused = ptr.To(true)
	s.must(s.api.Update(s.ctx, owner))
	waiting["Paused"] = "True Info Paused"
	check("paused", waiting)
	owner.Spec.Paused = nil
	owner.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	s.must(s.api.Update(s.ctx, owner))
	check("ready", map[clusterv1.ConditionType]string{"Ready": "True  Ready", "EndpointReady": "True  EndpointSet",
		"FailureDomainsReady": "True  NoFailureDomains", "Paused": "False  NotPaused"})
	s.machine("m", "c")
	s.must(s.api.Delete(s.ctx, s.get("c")))
	check("deleted", map[clusterv1.ConditionType]string{"Ready": "False Info MachinesRemain", "EndpointReady": "True  EndpointSet",
		"FailureDomainsReady": "True  NoFailureDomains", "Paused": "False  NotPaused"})
}

func (s *site) owner(name string) *clusterv1.Cluster {
	s.t.Helper()
	owner := &clusterv1.Cluster{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: name}, owner))
	return owner
}

// hardware creates the facts of a host.
func (s *site) hardware(name string, memoryGiB int64) {
	s.t.Helper()
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	facts.Spec.Architecture, facts.Spec.MemoryBytes = "amd64", memoryGiB<<30
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](500e9)}}
	s.create(facts)
}

// I11, C09: racks whose hosts are excluded by controlPlaneSelector, too small or in use are not
// offered to the control plane. A rack whose host is being released is, so that machines can be
// replaced without a spare host.
func testControlPlaneRacks(s *site) {
	s.cluster("c", endpoint, func(_ *clusterv1.Cluster, c *infrav1.IngotCluster) {
		c.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "storage", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	})
	claimedBy := func(machine string) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) {
			h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: machine}, ClusterName: "c", FailureDomain: h.Labels[infrav1.RackLabel],
				InstanceID: "6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d11", State: infrav1.ClaimProvisioned, Cleaning: infrav1.CleaningMetadata, Hostname: machine,
				Image: s.image()}
		}
	}
	s.host("own", "a-own", claimedBy("cp"))
	s.host("workers", "b-used", claimedBy("w"))
	s.host("storage", "c-storage", func(h *infrav1.IngotHost) { h.Labels["storage"] = "" })
	s.host("small", "d-small")
	s.host("free", "e-free")
	for name, memory := range map[string]int64{"own": 64, "workers": 64, "storage": 64, "small": 8, "free": 64} {
		s.hardware(name, memory)
	}
	serves := func() map[string]bool {
		s.t.Helper()
		out := map[string]bool{}
		for _, domain := range s.settle("c").Status.FailureDomains {
			out[domain.Name] = ptr.Deref(domain.ControlPlane, false)
		}
		return out
	}
	want := map[string]bool{"a-own": false, "b-used": false, "c-storage": false, "d-small": true, "e-free": true}
	if diff := cmp.Diff(want, serves()); diff != "" {
		s.t.Errorf("before there is a control plane (-want +got):\n%s", diff)
	}
	cp := s.machineWith("cp", "c", func(m *infrav1.IngotMachine) {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		m.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("64Gi"))}}
	})
	want["d-small"] = false
	if diff := cmp.Diff(want, serves()); diff != "" {
		s.t.Errorf("with a control plane (-want +got):\n%s", diff)
	}
	free := &infrav1.IngotHost{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "free"}, free))
	free.Spec.Maintenance = ptr.To(true)
	s.must(s.api.Update(s.ctx, free))
	s.settle("c")
	s.want("c", infrav1.ClusterFailureDomainsReadyCondition, metav1.ConditionTrue, infrav1.ReasonFailureDomainsPublished, "No failure domain has a free host for another control plane machine")
	free.Spec.Maintenance = nil
	s.must(s.api.Update(s.ctx, free))
	s.must(s.api.Delete(s.ctx, cp))
	own := &infrav1.IngotHost{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "own"}, own))
	own.Spec.Claim.State = infrav1.ClaimReleasing
	s.must(s.api.Update(s.ctx, own))
	want["a-own"], want["d-small"] = true, true // no machine defines the requirements anymore
	if diff := cmp.Diff(want, serves()); diff != "" {
		s.t.Errorf("while the host of its only machine is cleaned (-want +got):\n%s", diff)
	}
}

// M41: clusters of another manager are not touched.
func testWatchFilter(s *site) {
	s.WatchFilterValue = "mine"
	for name, value := range map[string]string{"mine": "mine", "theirs": "theirs"} {
		s.cluster(name, endpoint, func(_ *clusterv1.Cluster, c *infrav1.IngotCluster) {
			c.Labels = map[string]string{clusterv1.WatchLabel: value}
		})
	}
	if c := s.settle("theirs"); len(c.Finalizers) != 0 || len(c.Status.Conditions) != 0 {
		s.t.Errorf("another manager's cluster was touched: %+v", c)
	}
	if c := s.settle("mine"); len(c.Finalizers) != 1 {
		s.t.Error("our cluster was not touched")
	}
}
