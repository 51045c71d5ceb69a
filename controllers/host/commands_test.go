// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/inventory"
)

// commandAt is the value of a command issued at that time.
func commandAt(at time.Time, arguments ...string) string {
	return strings.Join(append([]string{at.UTC().Format(time.RFC3339)}, arguments...), ",")
}

// inUse creates a provisioned host that is on.
func (y *fixture) inUse(host string) {
	y.t.Helper()
	y.ready(host)
	y.inspect(host)
	y.claim(host)
	y.edit(host, func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Claim.Attempt = infrav1.ClaimProvisioned, 1
		h.Spec.Claim.Network = &infrav1.ClaimedNetwork{Config: "version: 2", Addresses: []string{"192.0.2.10"}}
	})
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
	y.until(host, "ready in use", func(h *infrav1.IngotHost) bool { return conditions.IsTrue(h, infrav1.ReadyCondition) })
}

// owned gives the machine of the host a Machine that is being deleted and drains.
func (y *fixture) owned(host string) *clusterv1.Machine {
	y.t.Helper()
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "m", Finalizers: []string{"example.com/drains"}}}
	owner.Spec.ClusterName, owner.Spec.Bootstrap.DataSecretName = "c", ptr.To("bootstrap")
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "m-" + host}
	y.create(owner)
	machine := &infrav1.IngotMachine{}
	must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "m-" + host}, machine))
	machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: owner.Name, UID: owner.UID}}
	must(y, y.api.Update(y.ctx, machine))
	return owner
}

// A force-release that has no effect is removed and does not affect a later release.
func testCommands(t *testing.T, on *testEnv) {
	force := infrav1.ForceReleaseAnnotation
	given := func(h *infrav1.IngotHost) bool { _, ok := h.Annotations[force]; return ok }
	t.Run("in use", func(t *testing.T) {
		y := newFixture(t, on)
		y.inUse("h")
		y.owned("h")
		before := conditions.Get(y.get("h"), infrav1.ReadyCondition)
		y.annotate("h", map[string]string{force: commandAt(y.clock.Now(), "by J. Doe")})
		y.step("h")
		if given(y.get("h")) {
			t.Error("the command is still there")
		}
		y.recordedOnce(infrav1.ReasonAnnotationIgnored)
		if diff := cmp.Diff(before, conditions.Get(y.get("h"), infrav1.ReadyCondition)); diff != "" {
			t.Errorf("Ready changed:\n%s", diff)
		}
		y.atRest("h")
	})
	for name, deleted := range map[string]func(*fixture){
		"its Machine drains":       func(y *fixture) { must(y, y.api.Delete(y.ctx, y.owned("h"))) },
		"its Machine is gone":      func(y *fixture) { y.removed(y.owned("h")) },
		"its IngotMachine is left": func(y *fixture) { y.leaving("h") },
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.inUse("h")
			deleted(y)
			y.annotate("h", map[string]string{force: commandAt(y.clock.Now(), "by J. Doe")})
			for range 3 {
				y.step("h")
				y.clock.Step(time.Minute)
			}
			if !given(y.get("h")) {
				t.Fatal("the command is taken away before the machine is released")
			}
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
			y.step("h")
			host := y.get("h")
			if host.Spec.Claim != nil || given(host) {
				t.Fatalf("not released by force: %+v", host.Spec.Claim)
			}
			if diff := cmp.Diff([]string{"192.0.2.10"}, host.Spec.Record.Quarantine.Addresses); diff != "" {
				t.Errorf("addresses of the system that may run on (-want +got):\n%s", diff)
			}
		})
	}
}

// A command that a GitOps tool applies repeatedly is carried out once (I24). The event names the
// user.
func testCommandsOnce(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.inUse("h")
	y.clock.Step(time.Hour)
	value := commandAt(y.clock.Now(), inventory.RebootForced)
	given := map[string]string{infrav1.RebootAnnotation: value, infrav1.CommandsGivenByAnnotation: `{"reboot":{"value":"` + value + `","user":"alice"}}`}
	y.annotate("h", given)
	y.bmc.took()
	for range 5 {
		y.step("h")
		y.clock.Step(time.Minute)
	}
	if writes := y.bmc.took(); writes != string(bmc.ActionForceRestart) {
		t.Fatalf("the BMC got %q", writes)
	}
	want := []infrav1.HostCommand{{Name: "reboot", RequestTime: metav1.NewTime(y.clock.Now().Add(-5 * time.Minute).Truncate(time.Second)), User: "alice"}}
	if diff := cmp.Diff(want, y.get("h").Spec.Commands); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	y.recordedOnce(infrav1.ReasonCommandExecuted)
	y.annotate("h", given) // by the next sync
	y.atRest("h")
	if y.get("h").Annotations[infrav1.RebootAnnotation] != value {
		t.Error("the annotation of the repository is removed, and would be set again")
	}
}

// removed deletes the object with its finalizers.
func (y *fixture) removed(owner *clusterv1.Machine) {
	y.t.Helper()
	owner.Finalizers = nil
	must(y, y.api.Update(y.ctx, owner))
	must(y, y.api.Delete(y.ctx, owner))
}

// leaving deletes the IngotMachine of the host, which waits for the fence.
func (y *fixture) leaving(host string) {
	y.t.Helper()
	machine := &infrav1.IngotMachine{}
	must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "m-" + host}, machine))
	machine.Finalizers = []string{infrav1.MachineFinalizer}
	must(y, y.api.Update(y.ctx, machine))
	must(y, y.api.Delete(y.ctx, machine))
}

// After an outage of the manager, agents get their full deadline again.
func testAgentDeadlineAfterManagerOutage(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.untilBoot("h", infrav1.OrderInspect)
	y.step("h")
	y.clock.Step(time.Hour)
	y.Reconciler = &Reconciler{Client: y.Client, Live: y.Live, BMC: y.BMC, Recorder: y.Recorder, Clock: y.Clock, Policy: y.Policy, Poll: y.Poll, NewID: y.NewID, Addresses: &ipam.Memory{}}
	y.step("h")
	y.clock.Step(y.Policy.RetryMax - time.Second)
	y.step("h")
	if result := y.get("h").Spec.Order.Result; result != nil {
		t.Fatalf("given up before it could be heard: %+v", result)
	}
	y.clock.Step(time.Second)
	y.step("h")
	if result := y.get("h").Spec.Order.Result; result == nil || result.Reason != infrav1.ReasonNoAgentContact {
		t.Errorf("an agent that is silent is waited for: %+v", result)
	}
}
