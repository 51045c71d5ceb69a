// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
)

// M28, M30, M46: a machine that lost its host permanently shows it in both contracts, is not
// reconciled even if the claim returns, and can be deleted.
func testPermanentLoss(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	s.provision("m")
	claim := s.getHost("h").Spec.Claim
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
	m := s.settle("m")
	want := &infrav1.IngotV1Beta1DeprecatedStatus{
		Conditions:     m.GetV1Beta1Conditions(),
		FailureReason:  ptr.To("UpdateError"),
		FailureMessage: ptr.To(conditions.GetMessage(m, infrav1.ReadyCondition)),
	}
	if diff := cmp.Diff(want, m.Status.Deprecated.V1Beta1); diff != "" {
		t.Errorf("what contract v1beta1 sees (-want +got):\n%s", diff)
	}
	if n := s.eventCount(infrav1.ReasonHostLost); n != 1 {
		t.Errorf("%d events of the loss", n)
	}
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = claim })
	if after := s.settle("m"); after.ResourceVersion != m.ResourceVersion {
		t.Errorf("a machine that has failed is reconciled: %+v", after.Status)
	}
	s.must(s.api.Delete(s.ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "m"}}))
	s.must(s.api.Delete(s.ctx, s.get("m")))
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForFence, "")
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.FencedTime = metav1.NewTime(s.clock.Now()) })
	s.step("m")
	if s.get("m") != nil {
		t.Error("a machine that has failed cannot be deleted")
	}
}

// M24, M25, M44: v1beta1 conditions match the v1beta2 conditions at every stage.
func testV1Beta1Conditions(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	check := func(stage string, want map[clusterv1.ConditionType]string) {
		t.Helper()
		got := map[clusterv1.ConditionType]string{}
		m := s.settle("m")
		for i, c := range m.GetV1Beta1Conditions() {
			got[c.Type] = string(c.Status) + " " + string(c.Severity) + " " + c.Reason
			if (i == 0) != (c.Type == clusterv1.ReadyV1Beta1Condition) && len(want) > 1 {
				t.Errorf("%s: condition %d is %s, and Ready comes first", stage, i, c.Type)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: conditions of contract v1beta1 (-want +got):\n%s", stage, diff)
		}
		if len(m.Status.Conditions) != len(got) {
			t.Errorf("%s: %d conditions and %d old ones", stage, len(m.Status.Conditions), len(got))
		}
	}
	s.machine("m")
	check("no host", map[clusterv1.ConditionType]string{"Ready": "False Warning NoMatchingHost",
		"HostClaimed": "False Warning NoMatchingHost", "Paused": "False  NotPaused"})
	s.host("h", "a")
	check("installing", map[clusterv1.ConditionType]string{"Ready": "False Info Provisioning", "HostClaimed": "True  HostClaimed",
		"Installed": "False Info Provisioning", "Paused": "False  NotPaused"})
	s.provision("m")
	running := map[clusterv1.ConditionType]string{"Ready": "True  Ready", "HostClaimed": "True  HostClaimed",
		"Installed": "True  Installed", "Booted": "Unknown  WaitingForBoot", "Paused": "False  NotPaused"}
	check("running", running)
	annotate := func(value map[string]string) {
		m := s.get("m")
		m.Annotations = value
		s.must(s.api.Update(s.ctx, m))
	}
	annotate(map[string]string{clusterv1.PausedAnnotation: ""}) // M43
	running["Paused"] = "True Info Paused"
	check("paused by annotation", running)
	annotate(nil)
	running["Paused"] = "False  NotPaused"
	check("running again", running)
}

// M17, M18: the IngotMachine's failure domain counts if the Machine has none. Two different ones
// select no host (I11).
func testOwnFailureDomain(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "a")
	s.host("h2", "b")
	ask := func(machine, own string) func(*clusterv1.Machine, *infrav1.IngotMachine) {
		return func(o *clusterv1.Machine, m *infrav1.IngotMachine) {
			o.Spec.FailureDomain, m.Spec.FailureDomain = machine, own
		}
	}
	s.machine("differ", ask("a", "b"))
	s.settle("differ")
	s.want("differ", infrav1.ReadyCondition, isFalse, infrav1.ReasonFailureDomainConflict, `"a", this IngotMachine "b"`)
	if failed(s.get("differ")) {
		t.Error("failed for good, though the Machine's failure domain may be corrected")
	}
	s.machine("own", ask("", "b"))
	s.machine("both", ask("a", "a"))
	for name, domain := range map[string]string{"own": "b", "both": "a"} {
		if m := s.settle(name); m.Status.FailureDomain != domain {
			t.Errorf("%s is in %q, want %q: %+v", name, m.Status.FailureDomain, domain, m.Status.Conditions)
		}
	}
	s.machine("full", ask("", "b"))
	s.settle("full")
	s.want("full", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, `in failure domain "b"`)
	s.want("full", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, "Nearest miss: h")

	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("differ"), owner))
	owner.Spec.FailureDomain = "b"
	s.must(s.api.Update(s.ctx, owner))
	s.host("h3", "b")
	if m := s.settle("differ"); m.Status.FailureDomain != "b" {
		t.Errorf("the corrected machine is in %q: %+v", m.Status.FailureDomain, m.Status.Conditions)
	}
}

// I11: a label changed after the selection.
func testLabelChanged(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m", func(o *clusterv1.Machine, _ *infrav1.IngotMachine) { o.Spec.FailureDomain = "a" })
	m := s.get("m")
	m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h", InstanceID: s.NewID()}.String()
	s.must(s.api.Update(s.ctx, m))
	s.editHost("h", func(h *infrav1.IngotHost) { h.Labels[infrav1.RackLabel] = "b" })
	s.available("h")
	m = s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, `in failure domain "b"`)
	if m.Spec.ProviderID != "" || len(s.claimsOn("m")) != 0 {
		t.Errorf("placed in another failure domain: %q, claims %v", m.Spec.ProviderID, s.claimsOn("m"))
	}
}

// M22, K54: a lost status is rebuilt from claim and hardware facts: provisioned, host, failure
// domain and reported addresses.
func testStatusLost(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	s.provision("m")
	facts := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key("h"), facts))
	facts.Spec.Booted = &infrav1.BootedSystem{InstanceID: s.getHost("h").Spec.Claim.InstanceID, Hostname: "m",
		ReportTime: metav1.NewTime(s.clock.Now()), Addresses: []string{"10.0.0.7"}}
	s.must(s.api.Update(s.ctx, facts))
	before := s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
	base := before.DeepCopy()
	lost := before.DeepCopy()
	lost.Status = infrav1.IngotMachineStatus{}
	s.must(s.api.Status().Patch(s.ctx, lost, client.MergeFrom(base)))
	s.hostStatus("h", func(h *infrav1.IngotHost) { h.Status = infrav1.IngotHostStatus{} })
	after := s.settle("m")
	for _, m := range []*infrav1.IngotMachine{before, after} {
		for i := range m.Status.Conditions {
			m.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		for i := range m.Status.Deprecated.V1Beta1.Conditions {
			m.Status.Deprecated.V1Beta1.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	if diff := cmp.Diff(before.Status, after.Status); diff != "" {
		t.Errorf("the status before and after it was lost (-before +after):\n%s", diff)
	}
	if address := after.Status.Addresses[2].Address; address != "10.0.0.7" {
		t.Errorf("address %s, want the reported one", address)
	}
}

// M29: a host that is missing after a move or a restore is not terminal. The machine continues when
// the host returns.
func testLateHost(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	s.provision("m")
	claim := s.getHost("h").Spec.Claim
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Spec.ProviderID = s.get("m").Spec.ProviderID // as Cluster API keeps it
	s.must(s.api.Update(s.ctx, owner))
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
	m := s.get("m")
	base := m.DeepCopy()
	m.Status = infrav1.IngotMachineStatus{}
	s.must(s.api.Status().Patch(s.ctx, m, client.MergeFrom(base)))
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonClaimLost, "Restore the IngotHost")
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = claim })
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	if failed(s.get("m")) {
		t.Error("a host that came late is a terminal failure")
	}
}

// M29: a stale cache, such as an earlier intent, never causes a permanent failure.
func testStaleCacheCausesNoPermanentLoss(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	s.provision("m")
	now := s.settle("m")
	before := now.DeepCopy()
	before.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h", InstanceID: s.NewID()}.String()
	s.Client = &stale{Indexed: s.api, machine: before}
	if after := s.step("m").RequeueAfter; after != timing.Default().Conflict {
		t.Errorf("looked at again after %s", after)
	}
	if m := s.get("m"); m.ResourceVersion != now.ResourceVersion {
		t.Errorf("the machine was written to: %+v", m.Status)
	}
	if n := s.eventCount(infrav1.ReasonHostLost); n != 0 {
		t.Errorf("%d events of a loss that was none", n)
	}
}

// I13: an IngotCluster that is restored after its machines is found by retries.
func testLateCluster(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.must(s.api.Delete(s.ctx, &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "c"}}))
	s.host("h", "a")
	s.machine("new")
	s.machine("chosen", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h", InstanceID: s.NewID()}.String()
	})
	for _, name := range []string{"new", "chosen"} {
		s.settle(name)
		s.want(name, infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForClusterInfrastructure, "IngotCluster c")
		if after := s.step(name).RequeueAfter; after <= 0 || after > 2*timing.Default().Placement {
			t.Errorf("%s is looked at again after %s", name, after)
		}
	}
}

// M41: machines of another manager are not touched.
func testWatchFilter(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.WatchFilterValue = "mine"
	for name, value := range map[string]string{"mine": "mine", "theirs": "theirs"} {
		s.machine(name, func(_ *clusterv1.Machine, m *infrav1.IngotMachine) { m.Labels[clusterv1.WatchLabel] = value })
	}
	s.host("h", "") // this manager would not power it off
	if m := s.settle("theirs"); len(m.Finalizers) != 0 || len(m.Status.Conditions) != 0 {
		t.Errorf("another manager's machine was touched: %+v", m)
	}
	if m := s.settle("mine"); len(m.Finalizers) != 1 {
		t.Error("our machine was not touched")
	}
	if s.getHost("h").Spec.Claim != nil {
		t.Error("another manager's host was claimed")
	}
	s.editHost("h", func(h *infrav1.IngotHost) { h.Labels = map[string]string{clusterv1.WatchLabel: "mine"} })
	if s.settle("mine"); s.getHost("h").Spec.Claim == nil {
		t.Error("our host was not claimed")
	}
	// The label may be removed between selection and claim.
	s.host("lost", "")
	s.machine("late", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Labels[clusterv1.WatchLabel] = "mine"
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "lost", InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	})
	if m := s.settle("late"); m.Spec.ProviderID != "" || s.getHost("lost").Spec.Claim != nil {
		t.Errorf("a host of another manager was claimed: %+v", m.Spec)
	}
}

// M27: a deleted machine shows its deletion, whatever it waited for before.
func TestDeletionShows(t *testing.T) {
	for reason, want := range map[string]string{
		"":                                      infrav1.ReasonDeleting,
		infrav1.ReasonReady:                     infrav1.ReasonDeleting,
		infrav1.ReasonNoMatchingHost:            infrav1.ReasonDeleting,
		infrav1.ReasonProvisioning:              infrav1.ReasonDeleting,
		infrav1.ReasonHostLost:                  infrav1.ReasonDeleting,
		infrav1.ReasonWaitingForFence:           infrav1.ReasonWaitingForFence,
		infrav1.ReasonWaitingForMachineDeletion: infrav1.ReasonWaitingForMachineDeletion,
		infrav1.ReasonWaitingForMachineHooks:    infrav1.ReasonWaitingForMachineHooks,
	} {
		m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Now())}}
		if reason != "" {
			conditions.Set(m, metav1.Condition{Type: infrav1.ReadyCondition, Status: isFalse, Reason: reason})
		}
		(&scope{machine: m}).summarize(time.Now(), timing.Default())
		if got := conditions.Get(m, infrav1.ReadyCondition); got.Status != isFalse || got.Reason != want {
			t.Errorf("Ready after %q is %s %s, want %s", reason, got.Status, got.Reason, want)
		}
	}
}

// Free hosts trigger machines only by changes that affect a selection; waiting machines only by
// claimable hosts.
func TestHostPredicates(t *testing.T) {
	host := func(changes ...func(*infrav1.IngotHost)) *infrav1.IngotHost {
		h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: "h", Generation: 1, Labels: map[string]string{"a": "b"}}}
		h.Spec.BMC = &infrav1.BMC{Address: "redfish://h"}
		h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Unix(1, 0)}
		for _, change := range changes {
			change(h)
		}
		return h
	}
	claimed := func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{} }
	available := func(h *infrav1.IngotHost) {
		conditions.Set(h, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: isTrue, Reason: "Available", ObservedGeneration: h.Generation})
	}
	changed := func(h *infrav1.IngotHost) { h.Generation = 2 }
	paused := func(h *infrav1.IngotHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }
	polled := func(h *infrav1.IngotHost) { h.Status.Power = infrav1.PowerStateOff }
	labelled := func(h *infrav1.IngotHost) { h.Labels["c"] = "d" }
	for name, tc := range map[string]struct {
		before, after *infrav1.IngotHost
		// its: the machine that selected or claimed the host; waiting: machines without a host.
		its, waiting bool
	}{
		"a poll of a free host":       {host(available), host(available, polled), false, false},
		"a poll of a claimed host":    {host(claimed), host(claimed, polled), true, false},
		"becomes free":                {host(), host(available), true, true},
		"is free no more":             {host(available), host(), true, false},
		"is claimed":                  {host(available), host(available, changed, claimed), true, false},
		"gets a label":                {host(available), host(available, labelled), true, true},
		"gets a label while claimed":  {host(claimed), host(claimed, labelled), true, false},
		"gets another spec":           {host(available), host(available, changed), true, false},
		"gets another spec, observed": {host(available, changed), host(changed, available), true, true},
		"is released":                 {host(claimed), host(), true, false},
		"is paused no more":           {host(available, paused), host(available), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}
			if got := affectsMachine().Update(update); got != tc.its {
				t.Errorf("wakes its machine: %t, want %t", got, tc.its)
			}
			if got := becameClaimable().Update(update); got != tc.waiting {
				t.Errorf("wakes those that wait: %t, want %t", got, tc.waiting)
			}
		})
	}
	if !becameClaimable().Create(event.CreateEvent{Object: host(available)}) || becameClaimable().Create(event.CreateEvent{Object: host()}) || becameClaimable().Delete(event.DeleteEvent{Object: host(available)}) {
		t.Error("a host is had when it is there and free")
	}
}
