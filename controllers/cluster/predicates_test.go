// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// Between two claims, only claim, release and its end make the clusters of the namespace read all
// hosts.
func TestAvailabilityChangesWithTheClaim(t *testing.T) {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", Labels: map[string]string{infrav1.RackLabel: "a"}}}
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://h"}
	host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Unix(1, 0)}
	hardware := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	agent := func(name string) { host.Spec.Order.AgentKey = name }
	result := func() {
		host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Unix(9, 0)}
	}
	type step struct {
		What  string
		Wakes bool
	}
	var got []step
	for _, write := range []struct {
		what string
		do   func()
	}{
		{"claimed", func() {
			host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: "i", State: infrav1.ClaimProvisioning, FailureDomain: "a"}
		}},
		{"ordered", func() {
			host.Spec.Claim.Attempt, host.Spec.Order = 1, &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: "o", Attempt: 1}
		}},
		{"an agent came", func() { agent("k") }},
		{"its disk", func() {
			host.Spec.Claim.RootDisk, host.Spec.Record.LastInstanceID = &infrav1.DiskReference{SerialNumber: "s"}, "i"
		}},
		{"installed", result},
		{"provisioned", func() { host.Spec.Claim.State = infrav1.ClaimProvisioned }},
		{"the order is over", func() { host.Spec.Order = nil }},
		{"booted", func() { hardware.Spec.Booted = &infrav1.BootedSystem{InstanceID: "i"} }},
		{"releasing", func() { host.Spec.Claim.State = infrav1.ClaimReleasing }},
		{"fenced", func() { host.Spec.Claim.FencedTime = metav1.Unix(10, 0) }},
		{"a cleaning ordered", func() { host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderClean, ID: "w", Attempt: 1} }},
		{"the cleaning agent came", func() { agent("l") }},
		{"cleaned", result},
		{"free", func() {
			host.Spec.Claim, host.Spec.Order, host.Spec.Record.SanitizedTime = nil, nil, metav1.Unix(11, 0)
		}},
		{"observed", func() { host.Status.Power = infrav1.PowerStateOff }},
	} {
		before, facing := host.DeepCopy(), hardware.DeepCopy()
		write.do()
		if !equality.Semantic.DeepEqual(before.Spec, host.Spec) {
			host.Generation++
		}
		got = append(got, step{write.what, availabilityChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: host.DeepCopy()}) ||
			index.FactsChanged().Update(event.UpdateEvent{ObjectOld: facing, ObjectNew: hardware.DeepCopy()})})
	}
	want := []step{{"claimed", true}, {"ordered", false}, {"an agent came", false}, {"its disk", false}, {"installed", false},
		{"provisioned", false}, {"the order is over", false}, {"booted", false}, {"releasing", true}, {"fenced", false},
		{"a cleaning ordered", false}, {"the cleaning agent came", false}, {"cleaned", false}, {"free", true}, {"observed", false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what wakes clusters (-want +got):\n%s", diff)
	}
	if !availabilityChanged().Create(event.CreateEvent{Object: host}) || !availabilityChanged().Delete(event.DeleteEvent{Object: host}) || !index.FactsChanged().Delete(event.DeleteEvent{Object: hardware}) {
		t.Error("a new or deleted host triggers no reconcile")
	}
	recorded := hardware.DeepCopy()
	recorded.Spec.Address = &infrav1.RecordedAddress{IP: "10.10.0.20"}
	if !index.FactsChanged().Update(event.UpdateEvent{ObjectOld: hardware, ObjectNew: recorded}) {
		t.Error("a recorded address triggers no reconcile")
	}
}

// Control plane machines trigger when they are created, select a host and are deleted; other
// machines only when they are deleted.
func TestMachineChanges(t *testing.T) {
	machine := func(providerID string, labels map[string]string) *infrav1.IngotMachine {
		return &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: infrav1.IngotMachineSpec{ProviderID: providerID}}
	}
	controlPlane := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	for name, tc := range map[string]struct {
		before, after *infrav1.IngotMachine
		want          bool
	}{
		"chooses":          {machine("", controlPlane), machine("ingot://n/h/i", controlPlane), true},
		"chooses again":    {machine("ingot://n/h/i", controlPlane), machine("", controlPlane), true},
		"says more":        {machine("ingot://n/h/i", controlPlane), machine("ingot://n/h/i", controlPlane), false},
		"a worker chooses": {machine("", nil), machine("ingot://n/h/i", nil), false},
	} {
		if got := machineChanged().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	if !machineChanged().Create(event.CreateEvent{Object: machine("", controlPlane)}) || machineChanged().Create(event.CreateEvent{Object: machine("", nil)}) ||
		!machineChanged().Delete(event.DeleteEvent{Object: machine("", nil)}) {
		t.Error("what comes or goes")
	}
}
