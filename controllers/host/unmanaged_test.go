// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A host without a BMC no longer owns the Secret that it used.
func testBMCRemovedFromSpec(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	owners := func() int {
		secret := &corev1.Secret{}
		must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "bmc"}, secret))
		return len(secret.OwnerReferences)
	}
	for range 3 {
		y.step("h")
	}
	if n := owners(); n != 1 {
		t.Fatalf("%d owners, want the host", n)
	}
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC = nil })
	for range 2 {
		y.step("h")
	}
	if n := owners(); n != 0 {
		t.Errorf("%d owners are left", n)
	}
	y.want("h", clusterv1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonUnmanaged)
}
