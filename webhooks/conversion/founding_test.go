// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capierrors "sigs.k8s.io/cluster-api/api/deprecated/errors"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/conversion"
)

// Every field of contract v1beta1 exists with its name and JSON type. "[]" is an item of a list, "{}"
// a value of a map.
func TestFieldsOfContractV1beta1(t *testing.T) {
	condition := map[string]string{"type": "string", "status": "string", "severity": "string", "reason": "string",
		"message": "string", "lastTransitionTime": "string date-time"}
	for plural, fields := range map[string]map[string]string{
		"ingotmachines": {
			"spec.providerID":            "string",  // M15
			"spec.failureDomain":         "string",  // M18
			"status.addresses":           "array",   // M19
			"status.addresses[].type":    "string",  // M20
			"status.addresses[].address": "string",  //
			"status.ready":               "boolean", // M21
			"status.conditions":          "array",   // M24, M25
			"status.failureReason":       "string",  // M28
			"status.failureMessage":      "string",  //
			"status.failureDomain":       "string",  // read by Cluster API v1.14 in both versions
			"status.v1beta2.conditions":  "array",   //
		},
		"ingotmachinetemplates": {
			"spec.template.metadata.labels{}":      "string", // M32
			"spec.template.metadata.annotations{}": "string",
			"spec.template.spec":                   "object",
			"status.capacity":                      "object", // M65
			"status.nodeInfo.architecture":         "string",
			"status.nodeInfo.operatingSystem":      "string",
			"status.conditions":                    "array", // M44
		},
		"ingotclusters": {
			"spec.controlPlaneEndpoint.host":       "string", // C06
			"spec.controlPlaneEndpoint.port":       "integer int32",
			"status.ready":                         "boolean", // C07
			"status.failureReason":                 "string",  // C08
			"status.failureMessage":                "string",
			"status.failureDomains":                "object", // C09
			"status.failureDomains{}.controlPlane": "boolean",
			"status.failureDomains{}.attributes{}": "string",
			"status.conditions":                    "array",
		},
		"ingotclustertemplates": {
			"spec.template.metadata.labels{}": "string", // C10
			"spec.template.spec":              "object",
		},
	} {
		t.Run(plural, func(t *testing.T) {
			if _, ok := fields["status.conditions"]; ok {
				for name, kind := range condition {
					fields["status.conditions[]."+name] = kind
				}
			}
			schema := schemaOf(t, plural, "v1beta1")
			got := map[string]string{}
			for path := range fields {
				got[path] = typeAt(schema, path)
			}
			if diff := cmp.Diff(fields, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// The same for contract v1beta2 (Cluster API book, v1.14).
func TestFieldsOfContractV1beta2(t *testing.T) {
	for plural, fields := range map[string]map[string]string{
		"ingotmachines": {
			"spec.providerID":                                 "string",  // M15
			"status.initialization.provisioned":               "boolean", // M21
			"status.failureDomain":                            "string",  // M18
			"status.addresses[].type":                         "string",  // M20
			"status.conditions[].observedGeneration":          "integer int64",
			"status.deprecated.v1beta1.conditions[].severity": "string",
			"status.deprecated.v1beta1.failureReason":         "string", // M28
		},
		"ingotmachinetemplates": {
			"status.capacity":              "object", // M65
			"status.nodeInfo.architecture": "string",
			"status.conditions[].type":     "string", // M44
		},
		"ingotclusters": {
			"status.initialization.provisioned":    "boolean", // C07
			"status.failureDomains[].name":         "string",  // C09
			"status.failureDomains[].controlPlane": "boolean",
			"status.failureDomains[].attributes{}": "string",
		},
	} {
		t.Run(plural, func(t *testing.T) {
			schema := schemaOf(t, plural, "v1beta2")
			got := map[string]string{}
			for path := range fields {
				got[path] = typeAt(schema, path)
			}
			if diff := cmp.Diff(fields, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// M02, M12, M15, M34, C04, C06, C09, C10: scope, names, categories and bounds.
func TestMarkers(t *testing.T) {
	for plural, short := range map[string]string{
		"ingotclusters": "ic", "ingotclustertemplates": "ict", "ingotmachines": "im", "ingotmachinetemplates": "imt",
	} {
		t.Run(plural, func(t *testing.T) {
			crd := readCRD(t, plural)
			names := apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.TrimSuffix(plural, "s"),
				Kind: crd.Spec.Names.Kind, ListKind: crd.Spec.Names.Kind + "List", ShortNames: []string{short}, Categories: []string{"cluster-api", "ingot"}}
			if diff := cmp.Diff(names, crd.Spec.Names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || crd.Name != plural+".infrastructure.cluster.x-k8s.io" {
				t.Errorf("scope %s, name %s", crd.Spec.Scope, crd.Name)
			}
			labels := map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
			for name, value := range labels {
				if crd.Labels[name] != value {
					t.Errorf("label %s is %q, want %q", name, crd.Labels[name], value)
				}
			}
		})
	}
	id := at(schemaOf(t, "ingotmachines", "v1beta2"), "spec.providerID")
	domains := at(schemaOf(t, "ingotclusters", "v1beta2"), "status.failureDomains")
	endpoint := at(schemaOf(t, "ingotclusters", "v1beta2"), "spec.controlPlaneEndpoint")
	host, port := endpoint.Properties["host"], endpoint.Properties["port"]
	got := []any{*id.MinLength, *id.MaxLength, *domains.MinItems, *domains.MaxItems, domains.XListMapKeys, *endpoint.MinProperties,
		*host.MinLength, *host.MaxLength, *port.Minimum, *port.Maximum, endpoint.Required}
	want := []any{int64(1), int64(512), int64(1), int64(100), []string{"name"}, int64(1), int64(1), int64(512), float64(1), float64(65535), []string(nil)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
}

func schemaOf(t *testing.T, plural, version string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, v := range readCRD(t, plural).Spec.Versions {
		if v.Name == version {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("%s has no version %s", plural, version)
	return nil
}

// at follows a path, and returns nil if it does not exist.
func at(schema *apiextensionsv1.JSONSchemaProps, path string) *apiextensionsv1.JSONSchemaProps {
	for _, part := range strings.Split(path, ".") {
		name := strings.TrimRight(part, "[]{}")
		next, ok := schema.Properties[name]
		if !ok {
			return nil
		}
		schema = &next
		switch part[len(name):] {
		case "[]":
			if schema.Items == nil {
				return nil
			}
			schema = schema.Items.Schema
		case "{}":
			if schema.AdditionalProperties == nil {
				return nil
			}
			schema = schema.AdditionalProperties.Schema
		}
	}
	return schema
}

func typeAt(schema *apiextensionsv1.JSONSchemaProps, path string) string {
	found := at(schema, path)
	if found == nil {
		return "missing"
	}
	return strings.TrimSpace(found.Type + " " + found.Format)
}

func TestMachineFromHub(t *testing.T) {
	reason, message := string(capierrors.UpdateMachineError), "for good"
	failed := capierrors.UpdateMachineError
	hub := &v1beta2.IngotMachine{
		Spec: v1beta2.IngotMachineSpec{ProviderID: "ingot://ns/h/1", FailureDomain: "rack-a"},
		Status: v1beta2.IngotMachineStatus{
			Conditions:     []metav1.Condition{{Type: "Ready", Status: "False", Reason: "HostLost"}},
			Initialization: v1beta2.IngotMachineInitializationStatus{Provisioned: new(true)},
			Addresses:      []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.1"}},
			FailureDomain:  "rack-a",
			Deprecated: &v1beta2.IngotMachineDeprecatedStatus{V1Beta1: &v1beta2.IngotV1Beta1DeprecatedStatus{
				Conditions:    clusterv1.Conditions{{Type: "Ready", Status: "False", Severity: "Error", Reason: "HostLost"}},
				FailureReason: &reason, FailureMessage: &message,
			}},
		},
	}
	got := &v1beta1.IngotMachine{}
	if err := conversion.MachineFromHub(t.Context(), hub, got); err != nil {
		t.Fatal(err)
	}
	want := v1beta1.IngotMachineStatus{
		Ready:         true,
		Addresses:     []clusterv1beta1.MachineAddress{{Type: clusterv1beta1.MachineInternalIP, Address: "192.0.2.1"}},
		FailureDomain: "rack-a", FailureReason: &failed, FailureMessage: &message,
		Conditions: clusterv1beta1.Conditions{{Type: "Ready", Status: "False", Severity: "Error", Reason: "HostLost"}},
		V1Beta2:    &v1beta1.IngotMachineV1Beta2Status{Conditions: hub.Status.Conditions},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status of the spoke (-want +got):\n%s", diff)
	}
	if got.Spec.FailureDomain != "rack-a" || got.Spec.ProviderID == nil || *got.Spec.ProviderID != "ingot://ns/h/1" {
		t.Errorf("spec of the spoke: %+v", got.Spec)
	}
}

// M44: Paused of a template, in both forms.
func TestMachineTemplateFromHub(t *testing.T) {
	hub := &v1beta2.IngotMachineTemplate{}
	hub.Status.Conditions = []metav1.Condition{{Type: "Paused", Status: "True", Reason: "Paused"}}
	hub.SetV1Beta1Conditions(clusterv1.Conditions{{Type: "Paused", Status: "True", Severity: "Info", Reason: "Paused"}})
	got := &v1beta1.IngotMachineTemplate{}
	if err := conversion.MachineTemplateFromHub(t.Context(), hub, got); err != nil {
		t.Fatal(err)
	}
	want := v1beta1.IngotMachineTemplateStatus{
		Conditions: clusterv1beta1.Conditions{{Type: "Paused", Status: "True", Severity: "Info", Reason: "Paused"}},
		V1Beta2:    &v1beta1.IngotMachineTemplateV1Beta2Status{Conditions: hub.Status.Conditions},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status of the spoke (-want +got):\n%s", diff)
	}
}
