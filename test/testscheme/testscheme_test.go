// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package testscheme_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

func TestScheme(t *testing.T) {
	claim := ipamv1.GroupVersion.WithKind("IPAddressClaim")
	scheme := testscheme.Scheme(t)
	for _, kind := range []string{"Secret", "Node"} {
		if !scheme.Recognizes(corev1.SchemeGroupVersion.WithKind(kind)) {
			t.Errorf("no %s", kind)
		}
	}
	if !scheme.Recognizes(clusterv1.GroupVersion.WithKind("Machine")) || !scheme.Recognizes(infrav1.GroupVersion.WithKind("IngotHost")) {
		t.Error("no Machine or no IngotHost")
	}
	if scheme.Recognizes(claim) {
		t.Error("an IPAddressClaim that was not asked for")
	}
	if !testscheme.Scheme(t, ipamv1.AddToScheme).Recognizes(claim) {
		t.Error("no IPAddressClaim")
	}
}
