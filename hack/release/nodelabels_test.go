// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Every template has a variable for the labels of hosts that Nodes get; the default is none.
func TestNodeLabels(t *testing.T) {
	r := write(t)
	for _, flavor := range flavors {
		for value, want := range map[string][]string{
			"":                                    {},
			"[dc.example/gpu, storage.example/*]": {"dc.example/gpu", "storage.example/*"},
			`["dc.example/gpu"]`:                  {"dc.example/gpu"},
			"[node-role.kubernetes.io/*]":         {"node-role.kubernetes.io/*"},
		} {
			variables := required
			if value != "" {
				variables = with(map[string]string{"INGOT_NODE_LABELS": value})
			}
			got := []string{}
			for _, o := range generate(t, r, flavor, 3, variables).Objs() {
				switch o := typed(t, o).(type) {
				case *infrav1.IngotCluster:
					got = append(got, o.Spec.NodeLabels...)
				case *clusterv1.Cluster:
					for _, v := range o.Spec.Topology.Variables {
						if v.Name != "nodeLabels" {
							continue
						}
						if err := yaml.Unmarshal(v.Value.Raw, &got); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("flavor %q, %q (-want +got):\n%s", flavor, value, diff)
			}
		}
	}
}

// Both classes reject invalid label keys like the IngotCluster.
func TestClassesRefuseNodeLabels(t *testing.T) {
	r := write(t)
	type list struct {
		MaxItems int64
		Unique   string `json:"x-kubernetes-list-type"`
		Items    struct{ MinLength, MaxLength int64 }
		Rules    []struct{ Rule string } `json:"x-kubernetes-validations"`
	}
	want := map[string]any{}
	definition := parse(t, read(t, filepath.Join(root, "config", "crd", "bases", "infrastructure.cluster.x-k8s.io_ingotclusters.yaml")))[0]
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		version := version.(map[string]any)
		if version["name"] != infrav1.GroupVersion.Version {
			continue
		}
		field, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "nodeLabels")
		var schema list
		data, err := yaml.Marshal(field)
		if err == nil {
			err = yaml.Unmarshal(data, &schema)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = map[string]any{
			"length": schema.MaxItems, "shortest": schema.Items.MinLength, "longest": schema.Items.MaxLength,
			"unique": schema.Unique == "set", "rule": schema.Rules[0].Rule,
		}
	}
	for flavor, class := range map[string]string{"clusterclass": "ingot", "clusterclass-runtime": "ingot-runtime"} {
		got := map[string]any{}
		for _, v := range find[*clusterv1.ClusterClass](t, generate(t, r, flavor, 3, required), class).Spec.Variables {
			if v.Name != "nodeLabels" {
				continue
			}
			schema := v.Schema.OpenAPIV3Schema
			got = map[string]any{
				"length": *schema.MaxItems, "shortest": *schema.Items.MinLength, "longest": *schema.Items.MaxLength,
				"unique": schema.UniqueItems != nil && *schema.UniqueItems, "rule": "self.all(l, l.matches('" + schema.Items.Pattern + "'))",
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("class %s (-IngotCluster +class):\n%s", class, diff)
		}
	}
}
