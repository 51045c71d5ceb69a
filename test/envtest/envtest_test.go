// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/test/envtest"
)

// The server is real: it stores a Cluster and refuses what the schema forbids.
func TestStartServesClusterAPI(t *testing.T) {
	cfg := envtest.Start(t, envtest.ClusterAPICRDs(t))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "default"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "IngotCluster", Name: "c1",
	}
	if err := c.Create(t.Context(), cluster.DeepCopy()); err != nil {
		t.Errorf("create a valid Cluster: %v", err)
	}
	cluster.Name = "c2"
	cluster.Spec.InfrastructureRef.Kind = "not a kind"
	if err := c.Create(t.Context(), cluster); err == nil {
		t.Error("a Cluster with a malformed reference was accepted")
	}
}
