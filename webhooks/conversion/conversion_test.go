// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/conversion"
)

func TestClusterFromHub(t *testing.T) {
	reason, message := "Broken", "for good"
	old := clusterv1beta1.Conditions{{Type: "Ready", Status: "False", Severity: "Error", Reason: "Broken"}}
	kept := clusterv1.Conditions{{Type: "Ready", Status: "False", Severity: "Error", Reason: "Broken"}}
	hub := &v1beta2.IngotCluster{Status: v1beta2.IngotClusterStatus{
		Conditions:     []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Broken"}},
		Initialization: v1beta2.IngotClusterInitializationStatus{Provisioned: new(true)},
		FailureDomains: []clusterv1.FailureDomain{
			{Name: "rack-b", ControlPlane: new(true)},
			{Name: "rack-a", ControlPlane: new(false), Attributes: map[string]string{"row": "1"}},
		},
		Deprecated: &v1beta2.IngotClusterDeprecatedStatus{V1Beta1: &v1beta2.IngotV1Beta1DeprecatedStatus{
			Conditions: kept, FailureReason: &reason, FailureMessage: &message,
		}},
	}}
	got := &v1beta1.IngotCluster{}
	if err := conversion.ClusterFromHub(t.Context(), hub, got); err != nil {
		t.Fatal(err)
	}
	want := v1beta1.IngotClusterStatus{
		Ready: true,
		FailureDomains: clusterv1beta1.FailureDomains{
			"rack-a": {Attributes: map[string]string{"row": "1"}},
			"rack-b": {ControlPlane: true},
		},
		FailureReason: &reason, FailureMessage: &message,
		Conditions: old,
		V1Beta2:    &v1beta1.IngotClusterV1Beta2Status{Conditions: hub.Status.Conditions},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status of the spoke (-want +got):\n%s", diff)
	}
	if got.Annotations[conversionutil.DataAnnotation] == "" {
		t.Error("the conversion data is missing")
	}
	if hub.Annotations != nil {
		t.Error("the hub object was changed")
	}
}

// status.ready of contract v1beta1 is a bool, but a pointer in v1beta2: false means unset without
// conversion data, and the stored value with it.
func TestReadyKeepsHubValue(t *testing.T) {
	tests := []struct {
		name string
		hub  *bool
	}{
		{"unset", nil},
		{"false", new(false)},
		{"true", new(true)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hub := &v1beta2.IngotMachine{}
			hub.Status.Initialization.Provisioned = tt.hub
			spoke, back := &v1beta1.IngotMachine{}, &v1beta2.IngotMachine{}
			if err := conversion.MachineFromHub(t.Context(), hub, spoke); err != nil {
				t.Fatal(err)
			}
			if err := conversion.MachineToHub(t.Context(), spoke, back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.hub, back.Status.Initialization.Provisioned); diff != "" {
				t.Errorf("provisioned (-want +got):\n%s", diff)
			}
		})
	}
	back := &v1beta2.IngotMachine{}
	if err := conversion.MachineToHub(t.Context(), &v1beta1.IngotMachine{}, back); err != nil {
		t.Fatal(err)
	}
	if back.Status.Initialization.Provisioned != nil {
		t.Error("an unset spoke became a hub with false")
	}
}

// Unset optional fields are omitted, because Cluster API treats an existing empty field as set
// (M18, C06; pitfalls b and c).
func TestUnsetFieldsAreOmitted(t *testing.T) {
	for name, object := range map[string]any{
		"machine": &v1beta1.IngotMachine{}, "cluster": &v1beta1.IngotCluster{},
		"hub machine": &v1beta2.IngotMachine{}, "hub cluster": &v1beta2.IngotCluster{},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{"failureDomain\"", "providerID", "controlPlaneEndpoint", "ready", "status"} {
				if strings.Contains(string(out), `"`+strings.TrimSuffix(field, `"`)+`"`) {
					t.Errorf("%s of an empty object is written: %s", field, out)
				}
			}
		})
	}
}

// Invalid conversion data is an error that names the object.
func TestConversionDataMalformed(t *testing.T) {
	spoke := &v1beta1.IngotMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m1", Annotations: map[string]string{conversionutil.DataAnnotation: "{"},
	}}
	err := conversion.MachineToHub(t.Context(), spoke, &v1beta2.IngotMachine{})
	if err == nil || !strings.Contains(err.Error(), "ns/m1") {
		t.Errorf("got %v, want an error that names ns/m1", err)
	}
}

func TestConvertersKnowBothVersions(t *testing.T) {
	for name, make := range map[string]conversion.New{
		"IngotCluster": conversion.Cluster(), "IngotClusterTemplate": conversion.ClusterTemplate(),
		"IngotMachine": conversion.Machine(), "IngotMachineTemplate": conversion.MachineTemplate(),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := make(newScheme(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The specs of both versions have the same schema. The API server validates an object only against
// the schema of its version, so a weaker spoke would bypass the hub's limits.
func TestSpecSchemasAreTheSame(t *testing.T) {
	for _, plural := range []string{"ingotclusters", "ingotclustertemplates", "ingotmachines", "ingotmachinetemplates"} {
		t.Run(plural, func(t *testing.T) {
			crd := readCRD(t, plural)
			specs := map[string]apiextensionsv1.JSONSchemaProps{}
			for _, v := range crd.Spec.Versions {
				spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
				// Cluster API's spoke type allows "metadata: {}".
				if meta, ok := spec.Properties["template"].Properties["metadata"]; ok {
					meta.MinProperties = nil
					spec.Properties["template"].Properties["metadata"] = meta
				}
				specs[v.Name] = spec
				if v.Storage != (v.Name == "v1beta2") || !v.Served {
					t.Errorf("version %s: served %v, storage %v", v.Name, v.Served, v.Storage)
				}
				if plural != "ingotclustertemplates" && (v.Subresources == nil || v.Subresources.Status == nil) {
					t.Errorf("version %s has no status subresource (pitfall f)", v.Name)
				}
			}
			if diff := cmp.Diff(specs["v1beta2"], specs["v1beta1"]); diff != "" {
				t.Errorf("schema of spec (-v1beta2 +v1beta1):\n%s", diff)
			}
		})
	}
}

func readCRD(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	file := filepath.Join("..", "..", "config", "crd", "bases", "infrastructure.cluster.x-k8s.io_"+plural+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}
