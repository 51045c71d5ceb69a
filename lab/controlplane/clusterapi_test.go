// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

// The infrastructure kinds of this test: schemaless, with no controller.
var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// One control plane for all that needs Cluster API's managers: its start is
// most of the time.
func TestClusterAPI(t *testing.T) {
	needs.ClusterAPI(t)
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Stop()
	if err := cp.InstallClusterAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, cp)
	installInfrastructure(t, c)

	t.Run("the validating webhook refuses a bad version", func(t *testing.T) {
		bad := machineDeployment("bad")
		bad.Spec.Template.Spec.Version = "not-a-version"
		if err := c.Create(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "spec.template.spec.version") {
			t.Errorf("create = %v, want a refusal that names the version", err)
		}
	})
	t.Run("the mutating webhook sets defaults", func(t *testing.T) {
		good := machineDeployment("good")
		good.Spec.Replicas = nil
		if err := c.Create(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		if good.Spec.Replicas == nil || *good.Spec.Replicas != 1 {
			t.Errorf("replicas = %v, want the default 1", good.Spec.Replicas)
		}
		if err := c.Delete(t.Context(), good); err != nil {
			t.Error(err)
		}
	})
	t.Run("the core manager acts on a Cluster", func(t *testing.T) { testClusterIsReconciled(t, cp, c) })
	t.Run("a Cluster can be read as v1beta1", func(t *testing.T) {
		var old clusterv1beta1.Cluster
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c1"}, &old); err != nil {
			t.Fatal(err)
		}
		// Only v1beta1 has the version of the referenced object; the conversion
		// looks it up in the labels of its definition.
		if got, want := old.Spec.InfrastructureRef.APIVersion, infrastructure.String(); got != want {
			t.Errorf("infrastructureRef.apiVersion = %q, want %q", got, want)
		}
	})
	if err := cp.Err(); err != nil {
		t.Error(err)
	}
}

// The core manager adopts the infrastructure object of a Cluster, and takes it
// for provisioned when it says so.
func testClusterIsReconciled(t *testing.T, cp *controlplane.ControlPlane, c client.Client) {
	infra := &unstructured.Unstructured{}
	infra.SetGroupVersionKind(infrastructure.WithKind("DummyCluster"))
	infra.SetNamespace("default")
	infra.SetName("c1")
	infra.Object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": "198.51.100.50", "port": int64(6443)}}
	if err := c.Create(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	infra.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": true}}
	if err := c.Status().Update(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "default"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrastructure.Group, Kind: "DummyCluster", Name: "c1",
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitFor(t, cp, "the Cluster's infrastructure is provisioned", func() bool {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			t.Fatal(err)
		}
		done := cluster.Status.Initialization.InfrastructureProvisioned
		return done != nil && *done && cluster.Spec.ControlPlaneEndpoint.Host == "198.51.100.50"
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
		t.Fatal(err)
	}
	if owners := infra.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Cluster" {
		t.Errorf("owners of the infrastructure object: %v", owners)
	}
}

// waitFor waits until ok, or a manager is dead.
func waitFor(t *testing.T, cp *controlplane.ControlPlane, what string, ok func() bool) {
	t.Helper()
	eventually.Wait{Interval: 100 * time.Millisecond, Broken: cp.Err}.Until(t, what, eventually.Holds(ok))
}

func newClient(t *testing.T, cp *controlplane.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, clusterv1beta1.AddToScheme, apiextensionsv1.AddToScheme, corev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// installInfrastructure installs a cluster kind as the contract wants it: its
// label says that version v1beta1 of it speaks contract v1beta2.
func installInfrastructure(t *testing.T, c client.Client) {
	t.Helper()
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "dummyclusters." + infrastructure.Group,
			Labels: map[string]string{"cluster.x-k8s.io/v1beta2": infrastructure.Version},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: infrastructure.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: "DummyCluster", ListKind: "DummyClusterList", Plural: "dummyclusters", Singular: "dummycluster",
			},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: infrastructure.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	if err := c.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	eventually.Wait{}.Until(t, "the definition to be served", eventually.Holds(func() bool {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	}))
}

func machineDeployment(name string) *clusterv1.MachineDeployment {
	secret, replicas := "bootstrap", int32(1)
	labels := map[string]string{"pool": name}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	md.Spec.ClusterName = "c1"
	md.Spec.Replicas = &replicas
	md.Spec.Selector.MatchLabels = labels
	md.Spec.Template.Labels = labels
	md.Spec.Template.Spec.ClusterName = "c1"
	md.Spec.Template.Spec.Version = "v1.36.3"
	md.Spec.Template.Spec.Bootstrap.DataSecretName = &secret
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrastructure.Group, Kind: "DummyMachineTemplate", Name: name,
	}
	return md
}
