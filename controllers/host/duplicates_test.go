// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The self-report of an unknown client takes no registered host out of use. After approval it is an
// ordinary duplicate.
func testEnrolledDuplicates(t *testing.T, on *testEnv) {
	enrolled := func(h *infrav1.IngotHost) {
		h.Labels, h.Spec.BMC = map[string]string{infrav1.EnrolledLabel: ""}, nil
	}
	for name, tc := range map[string]struct {
		fake  func(real *infrav1.IngotHost) func(*infrav1.IngotHost)
		facts bool
	}{
		"the same boot MAC": {fake: func(real *infrav1.IngotHost) func(*infrav1.IngotHost) {
			return func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = real.Spec.BootMACAddress }
		}},
		"the same BMC": {fake: func(real *infrav1.IngotHost) func(*infrav1.IngotHost) {
			return func(h *infrav1.IngotHost) { h.Spec.BMC = real.Spec.BMC }
		}},
		"the same UUID and serial number": {fake: func(*infrav1.IngotHost) func(*infrav1.IngotHost) {
			return func(*infrav1.IngotHost) {}
		}, facts: true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			real := y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()} })
			fake := y.ready("fake", enrolled, tc.fake(real))
			if tc.facts {
				system := infrav1.HardwareSystem{UUID: uuid.NewString(), SerialNumber: "s"}
				for _, host := range []*infrav1.IngotHost{real, fake} {
					y.describe(host)
					facts := y.factsOf(host.Name)
					facts.Spec.System = system
					must(y, y.api.Update(y.ctx, facts))
				}
			}
			for range 4 {
				y.step("h")
				y.step("fake")
			}
			y.want("h", infrav1.HostUniqueCondition, metav1.ConditionTrue, infrav1.HostUniqueCondition)
			y.want("fake", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonDuplicate)
			y.edit("fake", func(h *infrav1.IngotHost) { h.Labels = nil })
			y.step("h")
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonDuplicate)
		})
	}
}

func testMovedHostIsNoDuplicate(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	real := y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()} })
	y.ready("moved", func(h *infrav1.IngotHost) {
		h.Spec.BootMACAddress, h.Annotations = real.Spec.BootMACAddress, map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	})
	for range 4 {
		y.step("h")
	}
	y.want("h", infrav1.HostUniqueCondition, metav1.ConditionTrue, infrav1.HostUniqueCondition)
	y.edit("moved", func(h *infrav1.IngotHost) {
		h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: uuid.NewString(), State: infrav1.ClaimProvisioned, Hostname: "m", Cleaning: infrav1.CleaningMetadata,
			Image: infrav1.Image{URL: "http://images.example/x.zst", Checksum: "sha256:" + strings.Repeat("0", 64)}}
	})
	y.step("h")
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonDuplicate)
	y.edit("moved", func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
	y.step("h")
	y.want("h", infrav1.HostUniqueCondition, metav1.ConditionTrue, infrav1.HostUniqueCondition)
	y.edit("moved", func(h *infrav1.IngotHost) { h.Annotations = nil })
	y.step("h")
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonDuplicate)
}

// A host with persistent state is a duplicate whatever its labels.
func TestLabelHidesNoHostInUse(t *testing.T) {
	labelled := func(change func(*infrav1.IngotHost)) *infrav1.IngotHost {
		h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{infrav1.EnrolledLabel: ""}}}
		change(h)
		return h
	}
	registered := &infrav1.IngotHost{}
	for name, tc := range map[string]struct {
		host, duplicate *infrav1.IngotHost
		want            bool
	}{
		"registered":                 {registered, registered, true},
		"waits for approval":         {registered, labelled(func(*infrav1.IngotHost) {}), false},
		"is claimed":                 {registered, labelled(func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{} }), true},
		"is recorded":                {registered, labelled(func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{} }), true},
		"is under an order":          {registered, labelled(func(h *infrav1.IngotHost) { h.Spec.Order = &infrav1.HostOrder{} }), true},
		"seen by one that waits":     {labelled(func(*infrav1.IngotHost) {}), registered, true},
		"two that wait for approval": {labelled(func(*infrav1.IngotHost) {}), labelled(func(*infrav1.IngotHost) {}), true},
	} {
		if got := isDisabledBy(tc.host, tc.duplicate); got != tc.want {
			t.Errorf("%s: counts %t, want %t", name, got, tc.want)
		}
	}
}
