// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/test/envtest"
)

// exemptions is testdata/reasons.yaml.
type exemptions struct {
	// Reasons says, by kind and field, why a field needs no invalid case.
	Reasons map[string]map[string]string `json:"reasons"`
	// Same says, by kind and field, where the cases of the same schema are.
	Same map[string]map[string]place `json:"same"`
}

type place struct {
	Kind  string `json:"kind"`
	Field string `json:"field"`
}

// Every field of every spec has an invalid case, a place with the same schema
// that has one, or a reason why not. v1beta1 needs none of its own: a test of
// webhooks/conversion holds its schemas equal to those of v1beta2.
func TestEveryFieldHasAnInvalidCase(t *testing.T) {
	schemas := readSchemas(t)
	exempt := readExemptions(t)
	cases := readCases(t)
	for kind, schema := range schemas {
		t.Run(kind, func(t *testing.T) {
			known := fieldsOf("spec", schema)
			covered := map[string]bool{}
			for _, c := range cases[kind] {
				name := normal(c.Field)
				covered[name] = true
				if strings.HasPrefix(name, "spec") && !prefixes(known)[name] {
					t.Errorf("case %s is about %s, which does not exist", c.name, name)
				}
			}
			for name, reason := range exempt.Reasons[kind] {
				if !slices.Contains(known, name) || reason == "" || covered[name] {
					t.Errorf("reason for %s: the field does not exist, has a case, or the reason is empty", name)
				}
				covered[name] = true
			}
			for _, name := range known {
				if !covered[name] && !isSame(t, schemas, exempt.Same[kind], schema, name) {
					t.Errorf("%s has neither an invalid case nor a listed reason", name)
				}
			}
		})
	}
	for kind := range cases {
		if _, ok := schemas[kind]; !ok {
			t.Errorf("testdata/%s.cases belongs to no kind", kind)
		}
	}
}

// isSame reports whether field lies in a part whose schema equals another's, and
// fails the test if they are not equal.
func isSame(t *testing.T, schemas map[string]apiextensionsv1.JSONSchemaProps, same map[string]place,
	schema apiextensionsv1.JSONSchemaProps, field string) bool {
	t.Helper()
	for part, there := range same {
		if field != part && !strings.HasPrefix(field, part+".") && !strings.HasPrefix(field, part+"[") {
			continue
		}
		a, b := at(t, schema, part), at(t, schemas[there.Kind], there.Field)
		a.Description, b.Description = "", ""
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%s is not the same as %s of %s (-there +here):\n%s", part, there.Field, there.Kind, diff)
		}
		return true
	}
	return false
}

// at finds the schema of a path such as spec.template.spec, or spec.groups[].count,
// below a schema of spec.
func at(t *testing.T, schema apiextensionsv1.JSONSchemaProps, path string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, name := range strings.Split(path, ".")[1:] {
		name, isItem := strings.CutSuffix(name, "[]")
		next, ok := schema.Properties[name]
		if !ok || isItem && next.Items == nil {
			t.Fatalf("%s: there is no %s", path, name)
		}
		if schema = next; isItem {
			schema = *next.Items.Schema
		}
	}
	return schema
}

// fieldsOf lists the fields that hold values: scalars, lists (for their length
// and keys), items of lists as [] and values of maps as {}.
func fieldsOf(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case schema.Items != nil:
		return append([]string{path}, fieldsOf(path+"[]", *schema.Items.Schema)...)
	case schema.AdditionalProperties != nil:
		return fieldsOf(path+"{}", *schema.AdditionalProperties.Schema)
	case len(schema.Properties) == 0:
		return []string{path}
	}
	var out []string
	for name, child := range schema.Properties {
		out = append(out, fieldsOf(path+"."+name, child)...)
	}
	slices.Sort(out)
	return out
}

// prefixes are the fields, and the objects and maps that they stand in.
func prefixes(fields []string) map[string]bool {
	out := map[string]bool{}
	for _, field := range fields {
		out[field] = true
		for i, r := range field {
			if r == '.' || r == '{' || r == '[' {
				out[field[:i]] = true
			}
		}
	}
	return out
}

// normal writes a field as fieldsOf does: spec.nics[0].mac as spec.nics[].mac.
func normal(field string) string {
	var out strings.Builder
	for _, segment := range segmentPattern.FindAllString(field, -1) {
		switch inner := strings.Trim(segment, "[]"); {
		case inner == segment && out.Len() > 0:
			out.WriteString("." + segment)
		case inner == segment:
			out.WriteString(segment)
		case strings.Trim(inner, "0123456789") == "":
			out.WriteString("[]")
		default:
			out.WriteString("{}")
		}
	}
	return out.String()
}

// readSchemas reads the schema of spec of every kind, by its name in lower case.
func readSchemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(envtest.IngotCRDs(t), "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no custom resource definitions: %v", err)
	}
	out := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			if version.Storage {
				out[strings.ToLower(crd.Spec.Names.Kind)] = version.Schema.OpenAPIV3Schema.Properties["spec"]
			}
		}
	}
	return out
}

func readExemptions(t *testing.T) exemptions {
	t.Helper()
	data, err := os.ReadFile("testdata/reasons.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out exemptions
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
