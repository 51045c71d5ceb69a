// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/test/envtest"
)

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown
)

// M45, M47, M49, M50: prerequisites of the selection.
func testPrerequisites(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("unowned", unowned)
	if m := s.settle("unowned"); len(m.Finalizers) != 0 || len(m.Status.Conditions) != 0 {
		t.Errorf("a machine without an owner was touched: %+v", m)
	}
	s.machine("elsewhere", func(o *clusterv1.Machine, m *infrav1.IngotMachine) { o.Spec.ClusterName = "gone" })
	if m := s.settle("elsewhere"); len(m.Finalizers) != 0 {
		t.Errorf("a machine without a cluster was touched: %+v", m)
	}
	s.infrastructure(false)
	s.machine("m", func(o *clusterv1.Machine, _ *infrav1.IngotMachine) {
		o.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "m"}}
	})
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonWaitingForClusterInfrastructure, "Cluster c")
	s.infrastructure(true)
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForBootstrapData, "Machine m")
	if m := s.get("m"); m.Spec.ProviderID != "" {
		t.Error("a host was chosen before the bootstrap data is there")
	}
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	s.must(s.api.Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isTrue, infrav1.ReasonHostClaimed, "")
}

// From the selection to the booted system (I1, I4, M15–M22).
func testLifecycle(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	m := s.settle("m")
	host := s.getHost("h")
	id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
	s.must(err)
	want := &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: id.InstanceID,
		State: infrav1.ClaimProvisioning, Image: image(), FailureDomain: "a", Cleaning: infrav1.CleaningMetadata, Hostname: "m"}
	if diff := cmp.Diff(want, host.Spec.Claim); diff != "" || id.Host != "h" || id.Namespace != s.ns {
		t.Errorf("provider ID %q, claim (-want +got):\n%s", m.Spec.ProviderID, diff)
	}
	if m.Status.FailureDomain != "a" || m.Status.HostRef.Name != "h" || m.Status.Initialization.Provisioned != nil {
		t.Errorf("status = %+v", m.Status)
	}
	s.want("m", infrav1.MachineInstalledCondition, isFalse, infrav1.ReasonProvisioning, "Installing IngotHost h, attempt 1")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonProvisioning, "")

	s.provision("m")
	m = s.get("m")
	recorded := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key("h"), recorded))
	wantAddresses := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: "m"}, {Type: clusterv1.MachineInternalDNS, Address: "m"},
		{Type: clusterv1.MachineInternalIP, Address: recorded.Spec.Address.IP},
	}
	if diff := cmp.Diff(wantAddresses, m.Status.Addresses); diff != "" || !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Errorf("provisioned %v, addresses (-want +got):\n%s", m.Status.Initialization.Provisioned, diff)
	}
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	s.want("m", infrav1.MachineBootedCondition, isUnknown, infrav1.ReasonWaitingForBoot, "cloud-init")

	s.hostStatus("h", func(h *infrav1.IngotHost) {
		h.Status.Booted = &infrav1.BootedStatus{InstanceID: id.InstanceID, Hostname: "m"}
		h.Status.Addresses = []string{"10.0.0.7", "2001:db8::7"}
	})
	m = s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
	if got := m.Status.Addresses[2:]; len(got) != 2 || got[0].Address != "10.0.0.7" || got[1].Address != "2001:db8::7" {
		t.Errorf("addresses = %+v", got)
	}
	if n := s.eventCount(infrav1.ReasonHostClaimed); n != 1 {
		t.Errorf("%d events of the claim", n)
	}
	// All status lost: the same host, and provisioned again (I2, I3).
	base := m.DeepCopy()
	m.Status = infrav1.IngotMachineStatus{}
	s.must(s.api.Status().Patch(s.ctx, m, client.MergeFrom(base)))
	m = s.settle("m")
	if diff := cmp.Diff([]string{"h"}, s.claimsOn("m")); diff != "" || !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Status.HostRef.Name != "h" {
		t.Errorf("after the status was lost: %+v, claims %s", m.Status, diff)
	}
}

// I11: the requested failure domain or none, and the reason; owner sets are spread.
func testPlacement(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "a")
	s.host("h2", "a")
	s.host("h3", "b")
	s.machine("picky", func(o *clusterv1.Machine, _ *infrav1.IngotMachine) { o.Spec.FailureDomain = "z" })
	s.settle("picky")
	s.want("picky", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, "z")
	if after := s.step("picky").RequeueAfter; after < timing.Default().Placement || after > 2*timing.Default().Placement {
		t.Errorf("looks again after %s", after)
	}
	if n := s.eventCount(infrav1.ReasonNoMatchingHost); n != 1 {
		t.Errorf("%d events that no host suits", n)
	}
	set := func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Labels[clusterv1.MachineDeploymentNameLabel] = "md"
	}
	s.machine("m1", set)
	s.machine("m2", set)
	s.settle("m1")
	s.settle("m2")
	domains := []string{s.get("m1").Status.FailureDomain, s.get("m2").Status.FailureDomain}
	slices.Sort(domains)
	if diff := cmp.Diff([]string{"a", "b"}, domains); diff != "" {
		t.Errorf("two machines of a deployment (-want +got):\n%s", diff)
	}
}

// Machines that select before the cache shows each other's intents see them by memory.
func TestSelectionsSeeEachOther(t *testing.T) {
	now := time.Unix(1000, 0)
	var p recentSelections
	cluster := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
	var in inventorySnapshot
	for _, name := range []string{"h1", "h2", "h3"} {
		host := infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{infrav1.RackLabel: "rack-" + name}}}
		host.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name}
		host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(now)}
		conditions.Set(&host, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: isTrue, Reason: "x"})
		in.hosts = append(in.hosts, host)
		in.hardware = append(in.hardware, infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: infrav1.IngotHardwareSpec{
			Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](500e9)}}}})
	}
	for _, name := range []string{"m1", "m2", "m3", "m4"} {
		in.machines = append(in.machines, infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name)}})
	}
	choose := func(i int, at time.Time) string {
		s := &scope{machine: &in.machines[i], owner: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{}, ingotCluster: cluster}
		selection, id := p.selectHost(s, in, at, func() string { return "id" })
		if selection.Host == nil {
			return ""
		}
		return id.Host
	}
	seen := map[string]bool{}
	for i := range 3 {
		name := choose(i, now)
		if name == "" || seen[name] {
			t.Errorf("machine %d gets %q, already given: %v", i+1, name, seen)
		}
		seen[name] = true
	}
	if name := choose(3, now); name != "" {
		t.Errorf("a fourth machine gets %q of three hosts", name)
	}
	if again := choose(0, now.Add(time.Second)); again == "" {
		t.Error("a machine that chooses again is held up by its own choice")
	}
	if late := choose(3, now.Add(2*selectionMemory)); late == "" {
		t.Error("a selection that never showed is remembered forever")
	}
	if len(p.recent) != 1 {
		t.Errorf("%d choices are remembered", len(p.recent))
	}
}

// meddling changes a host between the live read and the write of the claim.
type meddling struct {
	*envtest.Indexed
	before func(obj client.Object)
}

func (m *meddling) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if m.before != nil {
		m.before(obj)
	}
	return m.Indexed.Patch(ctx, obj, patch, opts...)
}

// I1: a conflict clears the intent, and another host is selected. An intent that only a stale cache
// shows never becomes a claim.
func testConflicts(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	t.Run("host changed", func(t *testing.T) {
		s := newSite(t, cfg, scheme)
		s.host("h1", "a")
		s.host("h2", "a")
		s.machine("m")
		var first string
		s.Client = &meddling{Indexed: s.api, before: func(obj client.Object) {
			if host, ok := obj.(*infrav1.IngotHost); ok && first == "" {
				first = host.Name
				s.editHost(first, func(h *infrav1.IngotHost) { h.Spec.Maintenance = ptr.To(true) })
			}
		}}
		s.step("m")
		s.step("m")
		s.step("m")
		if m := s.get("m"); m.Spec.ProviderID != "" || first == "" {
			t.Fatalf("after a conflict on %q the intent stays: %q", first, m.Spec.ProviderID)
		}
		s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNotClaimed, first)
		s.settle("m")
		if hosts := s.claimsOn("m"); len(hosts) != 1 || hosts[0] == first {
			t.Errorf("claims = %v after a conflict on %s", hosts, first)
		}
	})
	t.Run("host deleted", func(t *testing.T) {
		s := newSite(t, cfg, scheme)
		s.host("h1", "a")
		s.machine("m")
		deleted := false
		s.Client = &meddling{Indexed: s.api, before: func(obj client.Object) {
			if host, ok := obj.(*infrav1.IngotHost); ok && !deleted {
				deleted = true
				s.must(s.api.Delete(s.ctx, host))
			}
		}}
		s.settle("m")
		s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, "")
	})
	t.Run("stale intent", func(t *testing.T) {
		s := newSite(t, cfg, scheme)
		s.host("h1", "a")
		s.machine("m")
		m := s.get("m")
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: s.NewID()}.String()
		m.Finalizers = []string{infrav1.MachineFinalizer}
		s.must(s.api.Update(s.ctx, m))
		s.Client = &stale{Indexed: s.api, machine: s.get("m")}
		m.Spec.ProviderID = ""
		s.must(s.api.Update(s.ctx, m))
		for range 4 {
			_, _ = s.Reconcile(s.ctx, ctrl.Request{NamespacedName: s.key("m")}) // a conflict of the pause condition is an error, and no harm
		}
		if hosts := s.claimsOn("m"); len(hosts) != 0 {
			t.Errorf("claimed for an intent that was given up: %v", hosts)
		}
	})
}

// stale returns an old version of one machine.
type stale struct {
	*envtest.Indexed
	machine *infrav1.IngotMachine
}

func (c *stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if machine, ok := obj.(*infrav1.IngotMachine); ok && key == client.ObjectKeyFromObject(c.machine) {
		c.machine.DeepCopyInto(machine)
		return nil
	}
	return c.Indexed.Get(ctx, key, obj, opts...)
}

// A host that is quarantined after failed installs ends the intent, and another host is selected.
func testInstallFailed(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "a")
	s.machine("m")
	first := s.settle("m").Spec.ProviderID
	s.editHost("h1", func(h *infrav1.IngotHost) {
		h.Spec.Claim = nil
		h.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineInstallFailed, StartTime: metav1.NewTime(s.clock.Now())}
	})
	m := s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, "quarantined")
	if m.Status.HostRef != nil || m.Status.FailureDomain != "" || conditions.Get(m, infrav1.MachineInstalledCondition) != nil {
		t.Errorf("the failed host is still shown: %+v", m.Status)
	}
	s.host("h2", "b")
	m = s.settle("m")
	if m.Spec.ProviderID == first || m.Status.HostRef == nil || m.Status.HostRef.Name != "h2" {
		t.Errorf("provider ID %q, host %v", m.Spec.ProviderID, m.Status.HostRef)
	}
}

// A provisioned machine never gets another host and stays provisioned (I2, M22). It fails only if
// the loss was seen and is permanent (M28, M29).
func testProvisionedMachineLosesItsHost(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	for name, tc := range map[string]struct {
		provisioned bool
		lose        func(s *site)
		reason      string
		says        string
	}{
		"claim gone": {true, func(s *site) { s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil }) },
			infrav1.ReasonHostLost, "Delete the Machine"},
		"host gone": {true, func(s *site) { s.must(s.api.Delete(s.ctx, s.getHost("h"))) }, infrav1.ReasonClaimLost, "IngotHost h does not exist"},
		"claim gone and status lost": {true, func(s *site) {
			s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
			owner := &clusterv1.Machine{}
			s.must(s.api.Get(s.ctx, s.key("m"), owner))
			m := s.get("m")
			owner.Spec.ProviderID = m.Spec.ProviderID // as Cluster API keeps it
			s.must(s.api.Update(s.ctx, owner))
			base := m.DeepCopy()
			m.Status = infrav1.IngotMachineStatus{}
			s.must(s.api.Status().Patch(s.ctx, m, client.MergeFrom(base)))
		}, infrav1.ReasonClaimLost, "Restore the IngotHost"},
		"released by a person, provisioned": {true, func(s *site) {
			s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
		}, infrav1.ReasonHostLost, "Delete the Machine"},
		"released by a person, not provisioned": {false, func(s *site) {
			s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
		}, infrav1.ReasonReleasing, "another host"},
		"provider ID of another namespace": {false, func(s *site) {
			m := s.get("m")
			m.Spec.ProviderID = infrav1.ProviderID{Namespace: "other", Host: "h", InstanceID: s.NewID()}.String()
			s.must(s.api.Update(s.ctx, m))
		}, infrav1.ReasonProviderIDInvalid, "Delete the Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, cfg, scheme)
			s.host("h", "a")
			s.machine("m")
			s.settle("m")
			if tc.provisioned {
				s.provision("m")
			}
			id := s.get("m").Spec.ProviderID
			s.host("spare", "a")
			tc.lose(s)
			m := s.settle("m")
			s.want("m", infrav1.ReadyCondition, isFalse, tc.reason, tc.says)
			if tc.provisioned && m.Spec.ProviderID != id {
				t.Errorf("provider ID changed from %q to %q", id, m.Spec.ProviderID)
			}
			if provisioned := ptr.Deref(m.Status.Initialization.Provisioned, false); provisioned != tc.provisioned {
				t.Errorf("provisioned %t, want %t", provisioned, tc.provisioned)
			}
			if terminal := tc.reason == infrav1.ReasonHostLost || tc.reason == infrav1.ReasonProviderIDInvalid; failed(m) != terminal {
				t.Errorf("failed for good: %t, want %t", failed(m), terminal)
			}
			if s.getHost("spare").Spec.Claim != nil {
				t.Error("the spare host was claimed")
			}
		})
	}
}

func testRestoredHostIsTheMachinesAgain(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	s.provision("m")
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	back := s.getHost("h")
	s.must(s.api.Delete(s.ctx, s.getHost("h")))
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonClaimLost, "Restore the IngotHost")
	back.ResourceVersion, back.UID = "", ""
	s.must(s.api.Create(s.ctx, back))
	m := s.settle("m")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	if failed(m) || m.Status.HostRef == nil || m.Status.HostRef.Name != "h" {
		t.Errorf("failed %t, host %v", failed(m), m.Status.HostRef)
	}
}

// I6, I7: owner, then fence, then finalizer.
func testDeletion(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	s.machine("m")
	s.provision("m")
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Finalizers = []string{"machine.cluster.x-k8s.io"}
	const etcd = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/kcp-cleanup"
	owner.Annotations = map[string]string{etcd: ""}
	s.must(s.api.Update(s.ctx, owner))

	s.must(s.api.Delete(s.ctx, s.get("m")))
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForMachineDeletion, "drain it yourself (kubectl drain), then delete Machine m")
	if s.getHost("h").Spec.Claim.State != infrav1.ClaimProvisioned {
		t.Fatal("released while its Machine lives")
	}
	s.must(s.api.Delete(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForMachineHooks, etcd)
	if s.getHost("h").Spec.Claim.State != infrav1.ClaimProvisioned {
		t.Fatal("released before its etcd member is removed")
	}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Annotations = nil
	s.must(s.api.Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForFence, infrav1.ForceReleaseAnnotation)
	if s.getHost("h").Spec.Claim.State != infrav1.ClaimReleasing {
		t.Fatal("not released")
	}
	s.clock.Step(24 * time.Hour)
	if s.settle("m") == nil {
		t.Fatal("the finalizer went without a fence")
	}
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.FencedTime = metav1.NewTime(s.clock.Now()) })
	s.step("m")
	if s.get("m") != nil {
		t.Error("the machine stays though its host is fenced")
	}
	for _, reason := range []string{infrav1.ReasonWaitingForMachineDeletion, infrav1.ReasonReleasing} {
		if n := s.eventCount(reason); n != 1 {
			t.Errorf("%d events %s", n, reason)
		}
	}
	// Without owner, cluster and host, the finalizer is removed.
	s.machine("orphan", unowned, func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Finalizers, m.Labels = []string{infrav1.MachineFinalizer}, nil
	})
	s.must(s.api.Delete(s.ctx, s.get("orphan")))
	s.settle("orphan")
	if s.get("orphan") != nil {
		t.Error("an unowned machine is never deleted")
	}
	// clusterctl deletes the object after a move; the claim stays (I9).
	s.host("h2", "a")
	s.machine("moved")
	s.provision("moved")
	moved := s.get("moved")
	moved.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	s.must(s.api.Update(s.ctx, moved))
	s.must(s.api.Delete(s.ctx, moved))
	s.settle("moved")
	if s.get("moved") == nil || s.getHost("h2").Spec.Claim.State != infrav1.ClaimProvisioned {
		t.Error("a machine that is being moved was released")
	}
}

// I7: a forced release ends the claim and the machine's wait.
func testForceRelease(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	for name, end := range map[string]func(s *site){
		"claim ended by force":  func(s *site) { s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil }) },
		"host deleted by force": func(s *site) { s.must(s.api.Delete(s.ctx, s.getHost("h"))) },
		"host claimed by another meanwhile": func(s *site) {
			s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.MachineRef.Name, h.Spec.Claim.InstanceID = "other", s.NewID() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, cfg, scheme)
			s.host("h", "a")
			s.machine("m")
			s.provision("m")
			s.must(s.api.Delete(s.ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "m"}}))
			s.must(s.api.Delete(s.ctx, s.get("m")))
			s.settle("m")
			s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonWaitingForFence, "")
			end(s)
			s.step("m")
			if s.get("m") != nil {
				t.Error("the machine waits for a fence that never comes")
			}
		})
	}
}

// M43, M44, I10.
func testPause(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	cluster := &clusterv1.Cluster{}
	s.must(s.api.Get(s.ctx, s.key("c"), cluster))
	cluster.Spec.Paused = ptr.To(true)
	s.must(s.api.Update(s.ctx, cluster))
	s.machine("m")
	if m := s.settle("m"); m.Spec.ProviderID != "" {
		t.Error("a host was chosen for a paused cluster")
	}
	s.want("m", infrav1.PausedCondition, isTrue, clusterv1.PausedReason, "paused")
	cluster.Spec.Paused = nil
	s.must(s.api.Update(s.ctx, cluster))
	s.settle("m")
	s.want("m", infrav1.PausedCondition, isFalse, clusterv1.NotPausedReason, "")
	s.want("m", infrav1.MachineHostClaimedCondition, isTrue, infrav1.ReasonHostClaimed, "")
}
