// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// shape is a schema without rules: names and types.
type shape struct {
	Type       string           `json:"type"`
	Properties map[string]shape `json:"properties"`
	Items      *shape           `json:"items"`
}

// UnmarshalJSON treats a quantity as a string, because class variables have no type for one.
func (s *shape) UnmarshalJSON(data []byte) error {
	type plain shape
	quantity := struct {
		IsQuantity bool `json:"x-kubernetes-int-or-string"`
	}{}
	if err := errors.Join(json.Unmarshal(data, (*plain)(s)), json.Unmarshal(data, &quantity)); err != nil {
		return err
	}
	if quantity.IsQuantity {
		s.Type = "string"
	}
	return nil
}

func shapeOf(t *testing.T, schema any) (s shape) {
	t.Helper()
	data, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The class variables for an IngotMachine have exactly its names and types, because Cluster API
// does not report unknown names.
func TestClassesKnowTheMachine(t *testing.T) {
	r := write(t)
	definition := parse(t, read(t, filepath.Join(root, "config", "crd", "bases", "infrastructure.cluster.x-k8s.io_ingotmachinetemplates.yaml")))[0]
	fields := map[string]any{}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if version := version.(map[string]any); version["name"] == infrav1.GroupVersion.Version {
			fields, _, _ = unstructured.NestedMap(version, "schema", "openAPIV3Schema",
				"properties", "spec", "properties", "template", "properties", "spec", "properties")
		}
	}
	for flavor, name := range map[string]string{"clusterclass": "ingot", "clusterclass-runtime": "ingot-runtime"} {
		class := find[*clusterv1.ClusterClass](t, generate(t, r, flavor, 3, required), name)
		compared := 0
		for _, field := range []string{"networkData", "rootDeviceHints", "softwareRAID"} {
			want := shapeOf(t, fields[field])
			if len(want.Properties) == 0 {
				t.Fatalf("an IngotMachineTemplate has no %s", field)
			}
			for _, v := range class.Spec.Variables {
				if role, ok := strings.CutSuffix(v.Name, strings.ToUpper(field[:1])+field[1:]); !ok || role != "controlPlane" && role != "worker" {
					continue
				}
				compared++
				if diff := cmp.Diff(want, shapeOf(t, v.Schema.OpenAPIV3Schema)); diff != "" {
					t.Errorf("%s of class %s (-IngotMachineTemplate +class):\n%s", v.Name, name, diff)
				}
			}
		}
		if compared != 6 {
			t.Errorf("class %s: %d variables compared, want 6", name, compared)
		}
	}
}

// The common patches of both classes are equal, because the Cluster API test covers only one
// class.
func TestClassesPatchAlike(t *testing.T) {
	r := write(t)
	of := map[string]map[string]clusterv1.ClusterClassPatch{}
	for flavor, name := range map[string]string{"clusterclass": "ingot", "clusterclass-runtime": "ingot-runtime"} {
		of[name] = map[string]clusterv1.ClusterClassPatch{}
		for _, patch := range find[*clusterv1.ClusterClass](t, generate(t, r, flavor, 3, required), name).Spec.Patches {
			of[name][patch.Name] = patch
		}
	}
	// These patches belong to the extension of ingot-runtime.
	for _, own := range []string{"cluster", "controlPlaneMachines", "workerMachines", "cleaning"} {
		delete(of["ingot"], own)
	}
	delete(of["ingot-runtime"], "cluster")
	delete(of["ingot-runtime"], "inventory")
	if diff := cmp.Diff(of["ingot"], of["ingot-runtime"]); diff != "" {
		t.Errorf("(-ingot +ingot-runtime):\n%s", diff)
	}
	if len(of["ingot"]) < 7 {
		t.Errorf("%d patches compared", len(of["ingot"]))
	}
}
