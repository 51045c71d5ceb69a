// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A waiting machine is not written while other machines claim and release hosts, and while hosts
// are registered, taken out of service and deleted.
func testBusyInventory(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	inDomain := func(domain string) func(*clusterv1.Machine, *infrav1.IngotMachine) {
		return func(o *clusterv1.Machine, _ *infrav1.IngotMachine) { o.Spec.FailureDomain = domain }
	}
	s.host("h0", "a")
	s.host("h1", "b")
	s.host("h2", "c")
	maintained := func(h *infrav1.IngotHost) { h.Spec.Maintenance = ptr.To(true) }
	s.editHost("h2", maintained)
	s.machine("user", inDomain("b"))
	s.provision("user")
	says := map[string]string{"waits-b": "All suitable hosts are claimed, busy or reserved", "waits-c": "Nearest miss: h2 (in maintenance)"}
	before := map[string]*infrav1.IngotMachine{}
	for name, text := range says {
		s.machine(name, inDomain(strings.TrimPrefix(name, "waits-")))
		before[name] = s.settle(name)
		s.want(name, infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, text)
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"hosts are registered", func() { s.host("n0", "a"); s.host("n1", "a") }},
		{"a machine claims one", func() { s.machine("other", inDomain("a")); s.provision("other") }},
		{"one is taken out of service", func() { s.editHost("n1", maintained) }},
		{"one is deleted", func() { s.must(s.api.Delete(s.ctx, s.getHost("n1"))) }},
		{"the one that suits is released", func() {
			s.editHost("h1", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
		}},
		{"it is cleaned", func() { s.editHost("h1", func(h *infrav1.IngotHost) { h.Spec.Claim = nil }) }},
		{"time passes", func() { s.clock.Step(time.Hour) }},
	} {
		step.do()
		for name := range says {
			if s.step(name).RequeueAfter <= 0 {
				t.Errorf("%s: %s does not look again by itself", step.name, name)
			}
			if after := s.get(name); after.ResourceVersion != before[name].ResourceVersion {
				t.Errorf("%s: %s was written (-before +after):\n%s", step.name, name, cmp.Diff(before[name].Status, after.Status))
				before[name] = after
			}
		}
	}
}

// A freed host triggers waiting machines once, when it becomes claimable, and not when another
// machine claims it.
func testFreedHost(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	for i := range 3 {
		s.machine(fmt.Sprintf("m%d", i))
		s.settle(fmt.Sprintf("m%d", i))
	}
	var woken []int
	at := func(before, after *infrav1.IngotHost) {
		update, requests := event.UpdateEvent{ObjectOld: before, ObjectNew: after}, map[reconcile.Request]bool{}
		for _, watch := range []struct {
			lets predicate.Predicate
			to   func(o client.Object) []reconcile.Request
		}{
			{affectsMachine(), func(o client.Object) []reconcile.Request { return s.machinesOfHost(s.ctx, o) }},
			{becameClaimable(), func(o client.Object) []reconcile.Request { return s.machinesThatWait(s.ctx, o) }},
		} {
			for _, o := range []client.Object{before, after} { // as controller-runtime maps an update
				if watch.lets.Update(update) {
					for _, request := range watch.to(o) {
						requests[request] = true
					}
				}
			}
		}
		woken = append(woken, len(requests))
	}
	s.host("h", "a")
	freed := s.getHost("h")
	inspected := freed.DeepCopy()
	inspected.Status.Conditions = nil
	at(inspected, freed)
	s.settle("m1")
	at(freed, s.getHost("h"))
	if diff := cmp.Diff([]int{3, 1}, woken); diff != "" {
		t.Errorf("machines woken by a host that is freed, and then claimed (-want +got):\n%s", diff)
	}
}

func TestIgnoreOwnerConditions(t *testing.T) {
	machine := func(version string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: version, Generation: 1}}
		for _, change := range changes {
			change(m)
		}
		return m
	}
	for name, tc := range map[string]struct {
		before, after *clusterv1.Machine
		want          bool
	}{
		"a copied message": {machine("1"), machine("2", func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.InfrastructureReadyCondition, Message: "x"}}
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{Conditions: clusterv1.Conditions{{Message: "x"}}}}
		}), false},
		"looked at again": {machine("1"), machine("1"), true},
		"bootstrap data":  {machine("1"), machine("2", func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = ptr.To("s") }), true},
		"its deletion":    {machine("1"), machine("2", func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) }), true},
		"a hook": {machine("1"), machine("2", func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/x": ""}
		}), true},
		"a label": {machine("1"), machine("2", func(m *clusterv1.Machine) { m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""} }), true},
		"a Node":  {machine("1"), machine("2", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ignoreOwnerConditions().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("wakes the machine: %t, want %t", got, tc.want)
			}
		})
	}
}
