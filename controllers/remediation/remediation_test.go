// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
)

func testHandedOver(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle == nil || cycle.Count != 1 || cycle.State != infrav1.PowerCycleOff || cycle.BootID != "boot-1" {
		s.t.Fatalf("the host is asked for %+v", cycle)
	}
	s.cycles()
	s.wants(infrav1.ReasonWaitingForNode)
	if got := s.restarted(); got != infrav1.ReasonPowerStateConfirmed {
		s.t.Errorf("before the Node is back, Restarted says %s", got)
	}
	node := &corev1.Node{}
	must(s.t, s.workload.Get(s.ctx, client.ObjectKey{Name: "m"}, node))
	node.Status.NodeInfo.BootID = "boot-2"
	must(s.t, s.workload.Status().Update(s.ctx, node))
	s.wants(infrav1.ReasonWaitingForNode)
	if got := s.restarted(); got != infrav1.ReasonBootIDChanged {
		s.t.Errorf("with another boot ID, Restarted says %s", got)
	}
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonPowerCycling)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle.Count != 2 || cycle.BootID != "boot-2" {
		s.t.Fatalf("the second cycle is %+v", cycle)
	}
	s.cycles()
	s.wants(infrav1.ReasonWaitingForNode)
	if handed := conditions.Get(s.machine(), clusterv1.MachineOwnerRemediatedCondition); handed != nil {
		s.t.Fatalf("handed over too early: %+v", handed)
	}
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	if q := s.host().Spec.Claim.Quarantine; q == nil || q.Reason != infrav1.QuarantineHealthFailed || q.Message == "" {
		s.t.Errorf("the host is marked %+v", q)
	}
	machine := s.machine()
	handed := conditions.Get(machine, clusterv1.MachineOwnerRemediatedCondition)
	if handed == nil || handed.Status != metav1.ConditionFalse || handed.Reason != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
		s.t.Errorf("the Machine says %+v", handed)
	}
	if old := machine.Status.Deprecated; old == nil || old.V1Beta1 == nil || len(old.V1Beta1.Conditions) != 1 || old.V1Beta1.Conditions[0].Type != clusterv1.MachineOwnerRemediatedV1Beta1Condition {
		s.t.Errorf("in the older contract the Machine says %+v", old)
	}
	if failed := conditions.Get(machine, clusterv1.MachineHealthCheckSucceededCondition); failed == nil || failed.Status != metav1.ConditionFalse {
		s.t.Errorf("what another says of the Machine was changed: %+v", failed)
	}
	want := []string{"PowerCycling", "WaitingForNode", "PowerCycling", "WaitingForNode", "HealthFailed", "OwnerRemediationRequested", "OwnerRemediationRequested"} // the last of both objects
	if diff := cmp.Diff(want, s.recorded()); diff != "" {
		s.t.Errorf("events (-want +got):\n%s", diff)
	}
	if obj := s.get(); ptr.Deref(obj.Status.Cycles, 0) != 2 || obj.Status.ObservedGeneration != obj.Generation || obj.Status.HostRef == nil || obj.Status.HostRef.Name != "h1" {
		s.t.Errorf("status %+v", obj.Status)
	}
}

// testHealthyAgain: also after the delegation; then nothing counts against the host.
func testHealthyAgain(s *site) {
	s.change(func(h *infrav1.IngotHost) {
		h.Spec.Claim.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed, StartTime: metav1.NewTime(s.clock.Now())}
	})
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	machine := s.machine()
	conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: "Succeeded",
		LastTransitionTime: metav1.NewTime(s.clock.Now().Add(time.Minute))})
	must(s.t, s.api.Status().Update(s.ctx, machine))
	s.wants(infrav1.ReasonNodeHealthy)
	if !conditions.IsTrue(s.get(), infrav1.ReadyCondition) {
		s.t.Error("not Ready")
	}
	must(s.t, s.api.Delete(s.ctx, s.get()))
	s.turn()
	if s.get() != nil || s.host().Spec.Claim.Quarantine != nil {
		s.t.Errorf("remediation %v, host marked %v", s.get(), s.host().Spec.Claim.Quarantine)
	}
	if conditions.Has(s.machine(), clusterv1.MachineExternallyRemediatedCondition) {
		s.t.Error("the Machine says that it waits for a remediation that there is no more")
	}
}

func testEnded(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	must(s.t, s.api.Delete(s.ctx, s.get()))
	s.turn()
	if cycle := s.host().Spec.Claim.PowerCycle; s.get() != nil || cycle.State != infrav1.PowerCycleOn {
		s.t.Errorf("remediation %v, power cycle %+v", s.get(), cycle)
	}
}

func testPaused(s *site) {
	cluster := &clusterv1.Cluster{}
	must(s.t, s.api.Get(s.ctx, s.key("c"), cluster))
	pause := func(paused bool) {
		cluster.Spec.Paused = ptr.To(paused)
		must(s.t, s.api.Update(s.ctx, cluster))
	}
	pause(true)
	s.wants("")
	if !conditions.IsTrue(s.get(), infrav1.PausedCondition) || s.host().Spec.Claim.PowerCycle != nil {
		s.t.Fatalf("paused: %+v", s.get().Status)
	}
	s.clock.Step(time.Minute)
	pause(false)
	// The Machine may have recovered before MachineHealthCheck shows it.
	s.wants(infrav1.ReasonWaitingForNode)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle != nil {
		s.t.Fatalf("cut at the end of the pause: %+v", cycle)
	}
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonPowerCycling)
	// The time of a pause does not count.
	pause(true)
	s.turn()
	s.clock.Step(time.Hour)
	pause(false)
	s.wants(infrav1.ReasonPowerCycling)
	if s.host().Spec.Claim.Quarantine != nil {
		s.t.Error("the pause is counted against the BMC")
	}
}

func testMoved(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	before := s.host().ResourceVersion
	obj := s.get()
	obj.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	must(s.t, s.api.Update(s.ctx, obj))
	must(s.t, s.api.Delete(s.ctx, obj))
	s.turn()
	if s.get() == nil || s.host().ResourceVersion != before {
		s.t.Error("an object that clusterctl moves is acted on")
	}
}

// testStatusLost: nothing is requested twice.
func testStatusLost(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	s.cycles()
	s.wants(infrav1.ReasonWaitingForNode)
	obj := s.get()
	obj.Status = infrav1.IngotRemediationStatus{}
	must(s.t, s.api.Status().Update(s.ctx, obj))
	s.wants(infrav1.ReasonWaitingForNode)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle.Count != 1 || cycle.State != infrav1.PowerCycleDone {
		s.t.Errorf("asked for again: %+v", cycle)
	}
}

// old returns an old version of the host.
type old struct {
	client.Reader
	host *infrav1.IngotHost
}

func (o old) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if host, ok := obj.(*infrav1.IngotHost); ok {
		o.host.DeepCopyInto(host)
		return nil
	}
	return o.Reader.Get(ctx, key, obj, opts...)
}

func testConflict(s *site) {
	s.Live = old{Reader: s.api, host: s.host()}
	s.change(func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
	s.turn()
	if cycle := s.host().Spec.Claim.PowerCycle; cycle != nil {
		s.t.Errorf("a power cycle of a host that is released: %+v", cycle)
	}
}

func testWatchFilter(s *site) {
	s.WatchFilterValue = "other"
	s.wants("")
	if obj := s.get(); len(obj.Finalizers) > 0 || s.host().Spec.Claim.PowerCycle != nil {
		s.t.Errorf("another manager's: %+v", obj)
	}
	machine := &infrav1.IngotMachine{}
	must(s.t, s.api.Get(s.ctx, s.key("im"), machine))
	machine.Labels[clusterv1.WatchLabel] = "other"
	must(s.t, s.api.Update(s.ctx, machine))
	s.wants(infrav1.ReasonPowerCycling)
}

// testEndedRemediationIsNotDelegated: an operator ends a remediation whose Machine the owner has
// not replaced yet. The owner's condition is removed.
func testEndedRemediationIsNotDelegated(s *site) {
	s.change(func(h *infrav1.IngotHost) {
		h.Spec.Claim.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed, StartTime: metav1.NewTime(s.clock.Now())}
	})
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	if !conditions.IsFalse(s.machine(), clusterv1.MachineOwnerRemediatedCondition) {
		s.t.Fatal("not handed over")
	}
	machine := s.machine()
	machine.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
	must(s.t, s.api.Update(s.ctx, machine))
	must(s.t, s.api.Delete(s.ctx, s.get()))
	s.turn()
	machine = s.machine()
	if s.get() != nil || conditions.Has(machine, clusterv1.MachineOwnerRemediatedCondition) ||
		v1beta1conditions.Has(machine, clusterv1.MachineOwnerRemediatedV1Beta1Condition) {
		s.t.Errorf("remediation %v, the Machine is still to be replaced: %+v", s.get(), machine.Status.Conditions)
	}
	if failed := conditions.Get(machine, clusterv1.MachineHealthCheckSucceededCondition); failed == nil || failed.Status != metav1.ConditionFalse {
		s.t.Errorf("what another says of the Machine was changed: %+v", failed)
	}
}

func testNoMachine(s *site) {
	obj := s.get()
	obj.OwnerReferences = nil
	must(s.t, s.api.Update(s.ctx, obj))
	s.wants(infrav1.ReasonMachineMissing)
	must(s.t, s.api.Delete(s.ctx, s.get()))
	if s.turn(); s.get() != nil {
		s.t.Error("the remediation of no Machine is never let go")
	}
}

func testHostLost(s *site) {
	s.change(func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	if !conditions.IsFalse(s.machine(), clusterv1.MachineOwnerRemediatedCondition) {
		s.t.Error("not handed over")
	}
}

func testPerson(s *site) {
	s.change(func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })
	s.wants(infrav1.ReasonMaintenance)
	s.clock.Step(time.Hour)
	// The host may just have been powered on.
	s.change(func(h *infrav1.IngotHost) { h.Spec.Power = "" })
	s.wants(infrav1.ReasonWaitingForNode)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle != nil {
		s.t.Fatalf("cut while it may be booting: %+v", cycle)
	}
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonPowerCycling)
}

func testLeftAlone(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	s.mark(map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""})
	s.wants(infrav1.ReasonMaintenance)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle.State != infrav1.PowerCycleOn {
		s.t.Errorf("a host is still to be cut: %+v", cycle)
	}
	s.mark(nil)
	s.wants(infrav1.ReasonPowerCycling)
	s.mark(map[string]string{clusterv1.PausedAnnotation: ""})
	s.wants(infrav1.ReasonMaintenance)
	s.mark(nil)
	machine := &infrav1.IngotMachine{}
	must(s.t, s.api.Get(s.ctx, s.key("im"), machine))
	machine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	must(s.t, s.api.Update(s.ctx, machine))
	s.wants(infrav1.ReasonMaintenance)
}

// mark annotates the Machine.
func (s *site) mark(with map[string]string) {
	s.t.Helper()
	machine := s.machine()
	machine.Annotations = with
	must(s.t, s.api.Update(s.ctx, machine))
}

// testUnreachable: the time without contact does not count.
func testUnreachable(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	s.cycles()
	reached := s.Workloads
	s.Workloads = clustercache.NewFakeClusterCache(s.workload, client.ObjectKey{Namespace: s.ns, Name: "another"})
	s.wants(infrav1.ReasonWaitingForNode)
	if ready := conditions.Get(s.get(), infrav1.ReadyCondition); ready.Status != metav1.ConditionUnknown {
		s.t.Errorf("Ready is %+v", ready)
	}
	s.clock.Step(time.Hour)
	s.wants(infrav1.ReasonWaitingForNode)
	s.Workloads = reached
	s.wants(infrav1.ReasonWaitingForNode)
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonPowerCycling)
}

func testBack(s *site) {
	s.wants(infrav1.ReasonPowerCycling)
	s.cycles()
	s.wants(infrav1.ReasonWaitingForNode)
	node := &corev1.Node{}
	must(s.t, s.workload.Get(s.ctx, client.ObjectKey{Name: "m"}, node))
	node.Status.NodeInfo.BootID = "boot-2"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
	must(s.t, s.workload.Status().Update(s.ctx, node))
	s.clock.Step(time.Hour)
	s.wants(infrav1.ReasonWaitingForNode)
	node.Status.Conditions[1].Status = corev1.ConditionTrue
	must(s.t, s.workload.Status().Update(s.ctx, node))
	s.wants(infrav1.ReasonPowerCycling)
}

// exhaust uses all power cycles without effect.
func (s *site) exhaust() {
	s.t.Helper()
	for range 2 {
		s.wants(infrav1.ReasonPowerCycling)
		s.cycles()
		s.wants(infrav1.ReasonWaitingForNode)
		s.clock.Step(11 * time.Minute)
	}
}

// machineSet acts as Cluster API's MachineSet controller on conditions of Machines.
func (s *site) machineSet() {
	s.t.Helper()
	machine := s.machine()
	if conditions.IsTrue(machine, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(machine, clusterv1.MachineOwnerRemediatedCondition) {
		conditions.Delete(machine, clusterv1.MachineOwnerRemediatedCondition)
		must(s.t, s.api.Status().Update(s.ctx, machine))
	}
}

// testDelegatedWith checks the Machine's conditions after the delegation, which needs
// HealthCheckSucceeded too.
func testDelegatedWith(status metav1.ConditionStatus) func(*site) {
	return func(s *site) {
		s.exhaust()
		machine := s.machine()
		conditions.Delete(machine, clusterv1.MachineHealthCheckSucceededCondition)
		if status != "" {
			conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: status, Reason: "Old",
				LastTransitionTime: metav1.NewTime(s.get().CreationTimestamp.Add(-time.Hour))})
		}
		must(s.t, s.api.Status().Update(s.ctx, machine))
		s.writes = 0
		for range 5 {
			s.turn()
			s.machineSet()
			s.clock.Step(time.Minute)
		}
		machine = s.machine()
		if !conditions.IsFalse(machine, clusterv1.MachineHealthCheckSucceededCondition) || !conditions.IsFalse(machine, clusterv1.MachineOwnerRemediatedCondition) {
			s.t.Errorf("its owner does not replace it: %+v", machine.Status.Conditions)
		}
		// The claim, the Machine (once for each contract), and the remediation's status before
		// and after that.
		if s.writes != 5 {
			s.t.Errorf("%d writes, and none should follow", s.writes)
		}
		s.wants(infrav1.ReasonOwnerRemediationRequested)
	}
}

// testInfraGone: a deleted IngotMachine does not come back.
func testInfraGone(s *site) {
	im := &infrav1.IngotMachine{ObjectMeta: s.meta("im")}
	must(s.t, s.api.Delete(s.ctx, im))
	s.wants(infrav1.ReasonProvisioning)
	machine := s.machine()
	machine.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	must(s.t, s.api.Status().Update(s.ctx, machine))
	s.wants(infrav1.ReasonOwnerRemediationRequested)
}

func testForeign(s *site) {
	s.infra("OtherMachine")
	s.WatchFilterValue = "mine"
	s.wants("")
	machine := s.machine()
	machine.Labels[clusterv1.WatchLabel] = "mine"
	must(s.t, s.api.Update(s.ctx, machine))
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	if handed := conditions.GetMessage(s.machine(), clusterv1.MachineOwnerRemediatedCondition); !strings.Contains(handed, "OtherMachine") {
		s.t.Errorf("the Machine says %q", handed)
	}
}

// infra makes the Machine one of another provider.
func (s *site) infra(kind string) {
	s.t.Helper()
	machine := s.machine()
	machine.Spec.InfrastructureRef.APIGroup, machine.Spec.InfrastructureRef.Kind = "infrastructure.other.example", kind
	must(s.t, s.api.Update(s.ctx, machine))
}

// testMarked: a Machine that an operator marked gets no power cycle.
func testMarked(s *site) {
	s.mark(map[string]string{clusterv1.RemediateMachineAnnotation: ""})
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	if claim := s.host().Spec.Claim; claim.PowerCycle != nil || claim.Quarantine != nil {
		s.t.Errorf("cycled %+v, held against the host: %+v", claim.PowerCycle, claim.Quarantine)
	}
}

// testBootID: an invalid boot ID of a tenant's kubelet does not stop the remediation.
func testBootID(s *site) {
	node := &corev1.Node{}
	must(s.t, s.workload.Get(s.ctx, client.ObjectKey{Name: "m"}, node))
	node.Status.NodeInfo.BootID = strings.Repeat("b", 129)
	must(s.t, s.workload.Status().Update(s.ctx, node))
	s.wants(infrav1.ReasonPowerCycling)
	if cycle := s.host().Spec.Claim.PowerCycle; cycle == nil || cycle.BootID != "" {
		s.t.Errorf("asked for %+v", cycle)
	}
}

// testQuiet: nothing is written while nothing changes, and reconciles are rare.
func testQuiet(s *site) {
	s.change(func(h *infrav1.IngotHost) { h.Spec.Maintenance = ptr.To(true) })
	s.wants(infrav1.ReasonMaintenance)
	s.writes = 0
	for range 5 {
		result, err := s.Reconcile(s.ctx, ctrl.Request{NamespacedName: s.key("m")})
		must(s.t, err)
		if rest := timing.Default().RemediationIdle; result.RequeueAfter < rest || result.RequeueAfter > 5*time.Minute {
			s.t.Errorf("comes again after %s", result.RequeueAfter)
		}
		s.clock.Step(result.RequeueAfter)
	}
	if s.writes > 0 {
		s.t.Errorf("%d writes while a person works", s.writes)
	}
}

// testOlder: the Machine may have recovered before the start of this process.
func testOlder(s *site) {
	s.clock.Step(time.Hour)
	s.wants(infrav1.ReasonWaitingForNode)
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonPowerCycling)
}

// testFailedInstallIsReplaced: a Machine that no attempt can install is replaced, without blaming
// its host.
func testFailedInstallIsReplaced(s *site) {
	s.MaxAttempts = 2
	s.change(func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Claim.Attempt = infrav1.ClaimProvisioning, 2
		h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: instance, Attempt: 2, CreationTime: metav1.NewTime(s.clock.Now())}
	})
	s.wants(infrav1.ReasonProvisioning)
	s.clock.Step(11 * time.Minute)
	s.wants(infrav1.ReasonProvisioning)
	s.change(func(h *infrav1.IngotHost) {
		h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: "ImageInvalid", Message: "no partition table", CompletionTime: metav1.NewTime(s.clock.Now())}
	})
	s.wants(infrav1.ReasonOwnerRemediationRequested)
	handed := conditions.GetMessage(s.machine(), clusterv1.MachineOwnerRemediatedCondition)
	if claim := s.host().Spec.Claim; claim.PowerCycle != nil || claim.Quarantine != nil || !strings.Contains(handed, "last with ImageInvalid: no partition table") {
		s.t.Errorf("cycled %+v, held against the host: %+v; the Machine says %q", claim.PowerCycle, claim.Quarantine, handed)
	}
}
