// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const (
	firstInstance  = "22222222-2222-4222-8222-222222222222"
	secondInstance = "11111111-1111-4111-8111-111111111111"
)

// small is a machine without a host, its prerequisites, and one free host.
type small struct {
	cluster      *clusterv1.Cluster
	owner        *clusterv1.Machine
	machine      *infrav1.IngotMachine
	host, second *infrav1.IngotHost
	api          client.Client
	reconciler   *Reconciler
}

func newSmall() *small {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Finalizers: []string{"example.com/held"}}
	}
	w := &small{cluster: &clusterv1.Cluster{ObjectMeta: meta("c")}, owner: &clusterv1.Machine{ObjectMeta: meta("m")}, machine: &infrav1.IngotMachine{ObjectMeta: meta("m")}}
	w.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "c"}
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	w.owner.Spec.ClusterName, w.owner.Spec.Bootstrap.DataSecretName = "c", new("bootstrap")
	w.owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "m"}
	w.machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	w.machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "u"}}
	w.machine.Spec.Image = image()
	w.host = freeHost("h")
	return w
}

func freeHost(name string) *infrav1.IngotHost {
	h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	h.Spec.BootMACAddress, h.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
	h.Spec.BMC = &infrav1.BMC{Address: "redfish://192.0.2.1", CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()}
	conditions.Set(h, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable})
	return h
}

// run reconciles until nothing changes and returns the machine.
func (w *small) run(t *testing.T) *infrav1.IngotMachine {
	t.Helper()
	if w.api == nil {
		objects := []client.Object{w.cluster, w.owner, w.machine, &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}}
		for _, h := range []*infrav1.IngotHost{w.host, w.second} {
			if h != nil {
				hardware := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: h.Name}}
				hardware.Spec.Architecture, hardware.Spec.Disks = "amd64", []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: "d", SizeBytes: new(int64(500e9))}}
				objects = append(objects, h, hardware)
			}
		}
		w.api = fake.NewClientBuilder().WithScheme(testscheme.Scheme(t)).WithObjects(objects...).WithStatusSubresource(&infrav1.IngotMachine{}, &infrav1.IngotHost{}).Build()
		w.reconciler = &Reconciler{Client: w.api, Live: w.api, Recorder: events.NewFakeRecorder(100),
			Clock: testclock.NewFakeClock(time.Now()), NewID: func() string { return secondInstance }}
	}
	key := client.ObjectKey{Namespace: "n", Name: "m"}
	for range 6 {
		if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	machine := &infrav1.IngotMachine{}
	if err := w.api.Get(t.Context(), key, machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

func (w *small) claimOn(t *testing.T, host string) *infrav1.HostClaim {
	t.Helper()
	h := &infrav1.IngotHost{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: host}, h); err != nil {
		t.Fatal(err)
	}
	return h.Spec.Claim
}

func TestNoHostIsSelectedForDeletedOwners(t *testing.T) {
	deleted := func(o client.Object) { o.SetDeletionTimestamp(new(metav1.Now())) }
	chosen := func(w *small) {
		w.machine.Spec.ProviderID = infrav1.ProviderID{Namespace: "n", Host: "h", InstanceID: firstInstance}.String()
	}
	for name, tc := range map[string]struct {
		change func(*small)
		reason string // empty: a host is claimed
		says   string
	}{
		"nothing is in the way":                        {func(*small) {}, "", ""},
		"the Machine is being deleted, held by a hook": {func(w *small) { deleted(w.owner) }, infrav1.ReasonDeleting, "Machine m is being deleted"},
		"the Cluster is being deleted":                 {func(w *small) { deleted(w.cluster) }, infrav1.ReasonDeleting, "Cluster c is being deleted"},
		"a host was chosen, and not claimed yet":       {func(w *small) { chosen(w); deleted(w.owner) }, infrav1.ReasonDeleting, "Machine m is being deleted"},
		"the Machine refers to another IngotMachine":   {func(w *small) { w.owner.Spec.InfrastructureRef.Name = "its-own" }, infrav1.ReasonOwnerMismatch, "IngotMachine its-own instead of this"},
		"the Machine refers to another kind":           {func(w *small) { w.owner.Spec.InfrastructureRef.Kind = "DockerMachine" }, infrav1.ReasonOwnerMismatch, "DockerMachine m instead of this"},
		"the Machine refers to nothing":                {func(w *small) { w.owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{} }, infrav1.ReasonOwnerMismatch, "delete ingotmachine -n n m"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSmall()
			tc.change(w)
			machine := w.run(t)
			claimed := conditions.Get(machine, infrav1.MachineHostClaimedCondition)
			if claim := w.claimOn(t, "h"); (claim == nil) != (tc.reason != "") || (machine.Spec.ProviderID == "") != (claim == nil) {
				t.Fatalf("claim %+v, provider ID %q, condition %+v", claim, machine.Spec.ProviderID, claimed)
			}
			if tc.reason != "" && (claimed.Reason != tc.reason || !strings.Contains(claimed.Message, tc.says)) {
				t.Errorf("%s: %s", claimed.Reason, claimed.Message)
			}
		})
	}
}

// An IngotMachine to which its owner does not refer is deleted without waiting for the owner.
func TestCopyIsDeleted(t *testing.T) {
	w := newSmall()
	w.owner.Spec.InfrastructureRef.Name = "its-own"
	w.machine.Finalizers = []string{infrav1.MachineFinalizer, "example.com/held"}
	w.machine.DeletionTimestamp = new(metav1.Now())
	if machine := w.run(t); len(machine.Finalizers) != 1 {
		t.Errorf("finalizers %v, conditions %+v", machine.Finalizers, machine.Status.Conditions)
	}
}

// After an operator released the host of a missing machine, it stays the machine's only host until
// the server is off, even if the machine is deleted (I1, I7). Then the machine selects another
// host, with a new instance (I6).
func TestForcedReleaseKeepsTheHostUntilFenced(t *testing.T) {
	id := infrav1.ProviderID{Namespace: "n", Host: "h", InstanceID: firstInstance}
	for name, tc := range map[string]struct {
		fenced, deleted bool
		providerID      string
		claimed         bool // the other host
		let             bool // the machine goes
	}{
		"not known to be off":          {providerID: id.String()},
		"off":                          {fenced: true, providerID: "ingot://n/other/" + secondInstance, claimed: true},
		"deleted, not known to be off": {deleted: true, providerID: id.String()},
		"deleted, off":                 {deleted: true, fenced: true, providerID: id.String(), let: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSmall()
			w.machine.Spec.ProviderID = id.String()
			w.host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: firstInstance, State: infrav1.ClaimReleasing, Attempt: 2}
			w.second = freeHost("other")
			if tc.fenced {
				w.host.Spec.Claim.FencedTime = metav1.Now()
			}
			if tc.deleted {
				w.machine.Finalizers = append(w.machine.Finalizers, infrav1.MachineFinalizer)
				w.machine.DeletionTimestamp, w.owner.DeletionTimestamp = new(metav1.Now()), new(metav1.Now())
			}
			machine := w.run(t)
			if let := tc.deleted && len(machine.Finalizers) == 1; machine.Spec.ProviderID != tc.providerID || let != tc.let {
				t.Errorf("provider ID %q, finalizers %v, conditions %+v", machine.Spec.ProviderID, machine.Finalizers, machine.Status.Conditions)
			}
			if claim := w.claimOn(t, "other"); (claim != nil) != tc.claimed {
				t.Errorf("claim of the free host: %+v", claim)
			}
			if claim := w.claimOn(t, "h"); claim == nil || claim.State != infrav1.ClaimReleasing {
				t.Errorf("the claim that is being released: %+v", claim)
			}
		})
	}
}
