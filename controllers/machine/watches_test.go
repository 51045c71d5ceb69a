// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/test/eventually"
)

// Changes of cluster, bootstrap data, host, install and fence trigger a reconcile.
func testWatches(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.infrastructure(false)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	s.must(err)
	s.must(index.Setup(t.Context(), mgr.GetFieldIndexer()))
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: s.events, Clock: s.clock, NewID: s.NewID}
	s.must(r.SetupWithManager(t.Context(), mgr, controller.Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		s.must(<-done)
	}()

	s.machine("m", func(o *clusterv1.Machine, _ *infrav1.IngotMachine) {
		o.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "m"}}
	})
	s.eventually("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForClusterInfrastructure)
	s.infrastructure(true)
	s.eventually("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForBootstrapData)
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	s.must(s.api.Update(s.ctx, owner))
	s.eventually("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost)
	s.host("h", "a")
	s.eventually("m", infrav1.MachineHostClaimedCondition, isTrue, infrav1.ReasonHostClaimed)
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Claim.Attempt = infrav1.ClaimProvisioned, 1 })
	s.eventually("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady)
	s.must(s.api.Delete(s.ctx, s.get("m")))
	s.eventually("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForMachineDeletion)
	s.must(s.api.Delete(s.ctx, owner))
	s.eventually("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForFence)
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
	// The end of the claim triggers the machine that waits for the fence.
	eventually.Wait{Limit: beforeRetry}.Until(t, "the machine's end with its claim", eventually.Holds(func() bool { return s.get("m") == nil }))
}

// beforeRetry is the time limit of a slow machine, and shorter than a retry.
var beforeRetry = timing.Default().Placement * 9 / 10

// eventually waits for a condition.
func (s *site) eventually(name, kind string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	explain := func() string { return fmt.Sprintf("%+v", s.get(name)) }
	eventually.Wait{Limit: beforeRetry, Explain: explain}.Until(s.t, fmt.Sprintf("condition %s %s %s", kind, status, reason), eventually.Holds(func() bool {
		m := s.get(name)
		if m == nil {
			return false
		}
		c := conditions.Get(m, kind)
		return c != nil && c.Status == status && c.Reason == reason
	}))
}
