// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/v1beta1conditions"
)

// costs are what a number of looks at the inventory led to.
type costs struct{ Writes, Wakes int }

// Between two looks of a machine that waits, hosts come, go and are claimed by others: it
// says so now and then, and is not woken by saying it.
func testBusyInventory(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	const looks = 20
	s := newSite(t, cfg, scheme)
	s.host("h0", "a")
	s.machine("m", func(o *clusterv1.Machine, _ *infrav1.IngotMachine) { o.Spec.FailureDomain = "z" })
	s.settle("m")
	for round, tc := range []struct {
		name    string
		between time.Duration
		want    costs
	}{
		// What changed after a rest is told at once, and then every two minutes.
		{"woken all the time", time.Second, costs{Writes: 1}},
		{"by its own clock", retryPlacement, costs{Writes: 5}},
	} {
		s.clock.Step(restingLooks * retryPlacement)
		var got costs
		for i := range looks {
			s.host(fmt.Sprintf("h-%d-%d", round, i), "a")
			before := s.get("m")
			if s.step("m").RequeueAfter <= 0 {
				t.Fatalf("%s: does not look again by itself", tc.name)
			}
			after := s.get("m")
			if before.ResourceVersion != after.ResourceVersion {
				got.Writes++
				if news().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
					got.Wakes++
				}
			}
			s.clock.Step(tc.between)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, %d looks (-want +got):\n%s", tc.name, looks, diff)
		}
	}
	// A rest later it says what there is: nobody is told of an inventory of long ago.
	s.clock.Step(restingLooks * retryPlacement)
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonNoMatchingHost, fmt.Sprintf("of %d hosts", 2*looks+1))
	if n := len(s.words.changed); n != 1 {
		t.Errorf("%d machines are remembered", n)
	}
}

// Every host that is given out wakes those that wait once, when it can be had, and not
// again when another machine has it.
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
			{matters(), func(o client.Object) []reconcile.Request { return s.machinesOfHost(s.ctx, o) }},
			{comesFree(), func(o client.Object) []reconcile.Request { return s.machinesThatWait(s.ctx, o) }},
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

// What else changes wakes a machine, the writing of its own controller too: some steps go on
// only then.
func TestNews(t *testing.T) {
	shows := func(reason, message string, changes ...func(*infrav1.IngotMachine)) *infrav1.IngotMachine {
		m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: reason + message, Generation: 1}}
		for _, kind := range []string{infrav1.MachineHostClaimedCondition, infrav1.ReadyCondition} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: isFalse, Reason: reason, Message: message})
		}
		m.SetV1Beta1Conditions(v1beta1conditions.Conditions(m.Status.Conditions))
		for _, change := range changes {
			change(m)
		}
		return m
	}
	const waits = infrav1.ReasonNoMatchingHost
	for name, tc := range map[string]struct {
		before, after *infrav1.IngotMachine
		want          bool
	}{
		"other figures":                  {shows(waits, "of 3 hosts 2 claimed"), shows(waits, "of 4 hosts 2 claimed"), false},
		"looked at again":                {shows(waits, "x"), shows(waits, "x"), true},
		"another reason":                 {shows(infrav1.ReasonWaitingForCluster, "x"), shows(waits, "x"), true},
		"words of what is not looked at": {shows(infrav1.ReasonProvisioning, "x"), shows(infrav1.ReasonProvisioning, "y"), true},
		"a status lost":                  {shows(waits, "x"), &infrav1.IngotMachine{}, true},
		"a choice":                       {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) { m.Spec.ProviderID = "z" }), true},
		"an annotation":                  {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) { m.Annotations = map[string]string{"a": ""} }), true},
		"an owner":                       {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) { m.OwnerReferences = make([]metav1.OwnerReference, 1) }), true},
		"a finalizer":                    {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) { m.Finalizers = []string{"f"} }), true},
		"its deletion":                   {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) { m.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) }), true},
		"a pause": {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) {
			conditions.Set(m, metav1.Condition{Type: infrav1.PausedCondition, Status: isTrue, Reason: clusterv1.PausedReason})
		}), true},
		"a generation seen": {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) { m.Status.Conditions[0].ObservedGeneration = 2 }), true},
		"a failure for good": {shows(waits, "x"), shows(waits, "y", func(m *infrav1.IngotMachine) {
			(&scope{machine: m}).fail("z")
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			was := tc.before.DeepCopy()
			if got := news().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("wakes the machine: %t, want %t", got, tc.want)
			}
			if diff := cmp.Diff(was, tc.before); diff != "" {
				t.Errorf("the cache's own object is changed (-was +is):\n%s", diff)
			}
		})
	}
}

// Of a Machine its conditions wake nobody: Cluster API copies there what Ingot says.
func TestNewsOfOwner(t *testing.T) {
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
			if got := newsOfOwner().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("wakes the machine: %t, want %t", got, tc.want)
			}
		})
	}
}
