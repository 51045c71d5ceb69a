// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
)

// An interrupted first boot is shown until a Node joins. IngotHardware restores a lost report.
func testFirstBootInterrupted(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "")
	s.machine("m")
	s.provision("m")
	id, err := infrav1.ParseProviderID(s.get("m").Spec.ProviderID)
	s.must(err)
	s.hostStatus("h", func(h *infrav1.IngotHost) {
		h.Status.Booted = &infrav1.BootedStatus{InstanceID: id.InstanceID, Interrupted: ptr.To(true)}
	})
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonFirstBootInterrupted, "Delete Machine m")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	s.clock.Step(2 * timing.Default().NodeJoin) // conditions use the system clock
	m := s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonFirstBootInterrupted, "Delete Machine m")
	if failed(m) || !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Errorf("failed for good: %t, a Node may join yet; provisioned %+v", failed(m), m.Status.Initialization)
	}

	hardware := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key("h"), hardware))
	hardware.Spec.Booted = &infrav1.BootedSystem{InstanceID: id.InstanceID, ReportTime: metav1.Now(), Interrupted: ptr.To(true)}
	s.must(s.api.Update(s.ctx, hardware))
	s.hostStatus("h", func(h *infrav1.IngotHost) { h.Status.Booted = nil })
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonFirstBootInterrupted, "Delete Machine m")

	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Status.NodeRef.Name = "m"
	s.must(s.api.Status().Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
}

// A missing sentinel file is a failed bootstrap if kubeadm's provider created the data and no Node
// has joined. One event is recorded.
func testBootstrapFailed(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "")
	s.machine("m")
	s.provision("m")
	id, err := infrav1.ParseProviderID(s.get("m").Spec.ProviderID)
	s.must(err)
	booted := func(sentinel infrav1.SentinelState) {
		s.hostStatus("h", func(h *infrav1.IngotHost) {
			h.Status.Booted = &infrav1.BootedStatus{InstanceID: id.InstanceID, Sentinel: sentinel}
		})
		s.settle("m")
	}
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	if owner.Spec.Bootstrap.ConfigRef.IsDefined() {
		t.Fatal("the bootstrap data are a provider's already")
	}
	booted(infrav1.SentinelMissing)
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")

	owner.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "m-1"}
	s.must(s.api.Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonBootstrapFailed, "cloud-init-output.log")
	if n := s.eventCount(infrav1.ReasonBootstrapFailed); n != 1 {
		t.Errorf("%d events", n)
	}
	booted(infrav1.SentinelPresent)
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
	booted(infrav1.SentinelMissing)
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonBootstrapFailed, "Delete Machine m")
	s.clock.Step(2 * timing.Default().NodeJoin) // conditions use the system clock
	if m := s.settle("m"); failed(m) {
		t.Error("failed for good, and a Node may join yet")
	}
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonBootstrapFailed, "Delete Machine m")

	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Status.NodeRef.Name = "m"
	s.must(s.api.Status().Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
}
