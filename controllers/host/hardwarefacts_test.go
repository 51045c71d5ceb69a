// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/hardware"
)

// factsOf reads the IngotHardware of a host; nil: there is none.
func (y *fixture) factsOf(name string) *infrav1.IngotHardware {
	y.t.Helper()
	facts := &infrav1.IngotHardware{}
	err := y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: name}, facts)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(y, err)
	return facts
}

// lose deletes the hardware facts of a host in spite of their finalizer.
func (y *fixture) lose(name string) {
	y.t.Helper()
	facts := y.factsOf(name)
	must(y, y.api.Delete(y.ctx, facts))
	facts = y.factsOf(name)
	if facts == nil || facts.DeletionTimestamp.IsZero() || !slices.Contains(facts.Finalizers, infrav1.InUseFinalizer) {
		y.t.Fatalf("the facts of host %s are not held: %+v", name, facts)
	}
	facts.Finalizers = nil
	must(y, y.api.Update(y.ctx, facts))
	if y.factsOf(name) != nil {
		y.t.Fatalf("the facts of host %s are still there", name)
	}
}

// A host whose IngotHardware is lost gets its address again while it is in use, and is inspected
// again when it is free.
func testLostFacts(t *testing.T, on *testEnv) {
	for name, used := range map[string]bool{"free": false, "in use": true} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()} })
			for range 5 {
				y.step("h")
			}
			y.want("h", infrav1.HostAvailableCondition, metav1.ConditionTrue, infrav1.ReasonAvailable)
			before := y.factsOf("h").Spec.Address
			if before == nil {
				t.Fatal("no address is recorded")
			}
			if used {
				y.edit("h", func(h *infrav1.IngotHost) {
					h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c",
						InstanceID: "22222222-2222-4222-8222-222222222222", State: infrav1.ClaimProvisioned, Cleaning: infrav1.CleaningMetadata, Hostname: "m", Image: image()}
				})
			}
			y.lose("h")
			y.clock.Step(2 * factsGrace)
			for range 5 {
				y.step("h")
			}
			after := y.factsOf("h")
			if after == nil || after.Spec.Address == nil || *after.Spec.Address != *before {
				t.Fatalf("after its facts were lost the host has %+v, before it had %+v", after, before)
			}
			if used {
				return
			}
			if conditions.IsTrue(y.get("h"), infrav1.HostAvailableCondition) {
				t.Error("the host is Available without facts")
			}
			if order := y.get("h").Spec.Order; order == nil || order.Kind != infrav1.OrderInspect {
				t.Errorf("order %+v, want an inspection", order)
			}
		})
	}
}

// In a namespace that is being deleted nothing can be created: the host shows it, and commands
// still work.
func testNamespaceTerminating(t *testing.T, on *testEnv) {
	for name, change := range map[string]func(*infrav1.IngotHost){
		"the certificate of a first use": func(h *infrav1.IngotHost) { h.Spec.BMC.TrustOnFirstUse = ptr.To(true) },
		"an address":                     func(*infrav1.IngotHost) {},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.bmc.power = bmc.PowerOff
			y.Fingerprint = func(context.Context, string) (string, error) { return "sha256:" + strings.Repeat("ab", 32), nil }
			y.ready("h", change, func(h *infrav1.IngotHost) {
				h.Finalizers = []string{infrav1.HostFinalizer}
				h.Spec.Record = &infrav1.HostRecord{CleaningDue: infrav1.CleaningMetadata}
			})
			must(y, y.api.Delete(y.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: y.ns}}))
			for range 5 {
				y.step("h")
			}
			ready := conditions.Get(y.get("h"), infrav1.ReadyCondition)
			if ready == nil || ready.Reason != infrav1.ReasonNamespaceTerminating || !strings.Contains(ready.Message, infrav1.ForceReleaseAnnotation) {
				t.Errorf("the host says %+v", ready)
			}
			must(y, y.api.Delete(y.ctx, y.get("h")))
			y.edit("h", func(h *infrav1.IngotHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.ForceReleaseAnnotation, commandAt(y.clock.Now()))
			})
			for range 3 {
				if y.get("h") != nil {
					y.step("h")
				}
			}
			if host := y.get("h"); host != nil {
				t.Errorf("force-release is not carried out: %+v", host.Status.Conditions)
			}
		})
	}
}

// describe creates or completes the facts of an inspected host.
func (y *fixture) describe(host *infrav1.IngotHost) {
	y.t.Helper()
	facts := y.factsOf(host.Name)
	if facts == nil {
		var err error
		facts, err = hardware.New(host, y.api.Scheme())
		must(y, err)
		y.create(facts)
	}
	if len(facts.Spec.NICs) > 0 {
		return
	}
	facts.Spec.NICs = []infrav1.HardwareNIC{{Name: "boot", MAC: host.Spec.BootMACAddress}}
	must(y, y.api.Update(y.ctx, facts))
}
