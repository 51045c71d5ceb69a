// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// value reads a field of an object, by its path; nil if there is none.
func value(o *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return v
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _ := value(o, path...).(string)
	return s
}

func truth(o *unstructured.Unstructured, path ...string) bool {
	b, _ := value(o, path...).(bool)
	return b
}

func list(o *unstructured.Unstructured, path ...string) []any {
	l, _ := value(o, path...).([]any)
	return l
}

// set changes a field of an object.
func set(o *unstructured.Unstructured, v any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, v, path...); err != nil {
		panic(err) // a mistake of a fixture
	}
}

func unset(o *unstructured.Unstructured, path ...string) {
	unstructured.RemoveNestedField(o.Object, path...)
}

// tree is a part of an object as a map.
func tree(v any) *unstructured.Unstructured {
	m, _ := v.(map[string]any)
	return &unstructured.Unstructured{Object: m}
}

// ofKind are the objects of a kind, whatever its group.
func ofKind(objects []unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := range objects {
		for _, kind := range kinds {
			if objects[i].GetKind() == kind {
				out = append(out, &objects[i])
			}
		}
	}
	return out
}

// one is the object of a kind and name; nil if there is none.
func one(objects []unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, o := range ofKind(objects, kind) {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

// walk visits all values of a tree with their paths; keys of maps are joined by
// dots, elements of lists have no index.
func walk(v any, path string, visit func(path string, v any)) {
	visit(path, v)
	switch t := v.(type) {
	case map[string]any:
		for key, child := range t {
			walk(child, strings.TrimPrefix(path+"."+key, "."), visit)
		}
	case []any:
		for _, child := range t {
			walk(child, path, visit)
		}
	}
}

// definitionOf turns a definition of the components into its type, without the
// schemas: these are looked at as the API server has them.
func definitionOf(o *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinition {
	o = withoutSchemas(o)
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
		return &apiextensionsv1.CustomResourceDefinition{}
	}
	return d
}

// withoutSchemas is a definition without the schemas of its versions.
func withoutSchemas(o *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := value(o, "spec").(map[string]any)
	if o.GetKind() != "CustomResourceDefinition" || spec == nil {
		return o
	}
	spec = maps.Clone(spec)
	var versions []any
	for _, v := range list(o, "spec", "versions") {
		bare := maps.Clone(tree(v).Object)
		delete(bare, "schema")
		versions = append(versions, bare)
	}
	spec["versions"] = versions
	out := maps.Clone(o.Object)
	out["spec"] = spec
	return &unstructured.Unstructured{Object: out}
}

// shippedDefinition is a definition as the components have it.
func (s *Shipped) shippedDefinition(plural string) *unstructured.Unstructured {
	for _, o := range ofKind(s.Components, "CustomResourceDefinition") {
		if text(o, "spec", "names", "plural") == plural {
			return o
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{}}
}
