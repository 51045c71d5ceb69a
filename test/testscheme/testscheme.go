// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package testscheme

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Scheme has the kinds of Kubernetes, of Cluster API's core and of Ingot, in the
// versions that are stored, and what a test adds.
func Scheme(t testing.TB, more ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range append([]func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme}, more...) {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
