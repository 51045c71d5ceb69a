// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group of Ingot's kinds.
const group = "infrastructure.cluster.x-k8s.io"

// Resources that Cluster API works with, and the inventory of Ingot's own.
const (
	machines         = "ingotmachines"
	machineTemplates = "ingotmachinetemplates"
	clusters         = "ingotclusters"
	clusterTemplates = "ingotclustertemplates"
	hosts            = "ingothosts"
	hardwares        = "ingothardwares"
	networks         = "ingotnetworks"
)

// The contracts that are kept, and the API versions that keep them.
const (
	v1beta1 = "v1beta1"
	v1beta2 = "v1beta2"
)

var (
	machineKinds = []string{machines, machineTemplates}
	clusterKinds = []string{clusters, clusterTemplates}
	inventory    = []string{hosts, hardwares, networks}
	versions     = []string{v1beta1, v1beta2}
)

// definition of a resource as the API server reports it; an empty one if there is
// none, on which every check fails.
func (s *Shipped) definition(plural string) *apiextensionsv1.CustomResourceDefinition {
	return find(s.Definitions, plural)
}

func find(list []apiextensionsv1.CustomResourceDefinition, plural string) *apiextensionsv1.CustomResourceDefinition {
	for i := range list {
		if list[i].Spec.Names.Plural == plural {
			return &list[i]
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{}
}

// plurals are all kinds that the release defines but those named, as resources.
func (s *Shipped) plurals(but ...string) []string {
	var out []string
	for _, o := range ofKind(s.Components, "CustomResourceDefinition") {
		if plural := text(o, "spec", "names", "plural"); !slices.Contains(but, plural) {
			out = append(out, plural)
		}
	}
	return out
}

// version of a definition; nil if it has none of that name.
func version(d *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == name {
			return &d.Spec.Versions[i]
		}
	}
	return nil
}

// schema of a field of a served version, by its path: "status.addresses", with []
// for the elements of a list and {} for the values of a map. It is nil if there is
// no such field.
func (s *Shipped) schema(plural, versionName, path string) *apiextensionsv1.JSONSchemaProps {
	v := version(s.definition(plural), versionName)
	if v == nil || !v.Served || v.Schema == nil {
		return nil
	}
	at := v.Schema.OpenAPIV3Schema
	for step := range strings.SplitSeq(path, ".") {
		if at == nil {
			return nil
		}
		switch step {
		case "[]":
			if at.Items == nil {
				return nil
			}
			at = at.Items.Schema
		case "{}":
			if at.AdditionalProperties == nil {
				return nil
			}
			at = at.AdditionalProperties.Schema
		default:
			p, ok := at.Properties[step]
			if !ok {
				return nil
			}
			at = &p
		}
	}
	return at
}

// change a field of the schema; a Break of a field that is not there is a mistake
// of the fixture.
func (s *Shipped) change(plural, versionName, path string, edit func(*apiextensionsv1.JSONSchemaProps)) {
	v := version(s.definition(plural), versionName)
	changeAt(v.Schema.OpenAPIV3Schema, strings.Split(path, "."), edit)
}

func changeAt(at *apiextensionsv1.JSONSchemaProps, path []string, edit func(*apiextensionsv1.JSONSchemaProps)) {
	if len(path) == 0 {
		edit(at)
		return
	}
	switch path[0] {
	case "[]":
		changeAt(at.Items.Schema, path[1:], edit)
	case "{}":
		changeAt(at.AdditionalProperties.Schema, path[1:], edit)
	default:
		p, ok := at.Properties[path[0]]
		if !ok {
			panic(fmt.Sprintf("no field %s to break", path[0]))
		}
		changeAt(&p, path[1:], edit)
		at.Properties[path[0]] = p
	}
}

// without removes a field from the schema of its parent.
func without(name string) func(*apiextensionsv1.JSONSchemaProps) {
	return func(p *apiextensionsv1.JSONSchemaProps) {
		delete(p.Properties, name)
		p.Required = slices.DeleteFunc(p.Required, func(r string) bool { return r == name })
	}
}

// ofType sets the type of a field.
func ofType(name string) func(*apiextensionsv1.JSONSchemaProps) {
	return func(p *apiextensionsv1.JSONSchemaProps) { p.Type = name }
}

// isType says whether a field is there with that type.
func isType(p *apiextensionsv1.JSONSchemaProps, name string) bool { return p != nil && p.Type == name }

// optional says whether the parent does not require a field.
func (s *Shipped) optional(plural, versionName, parent, name string) bool {
	p := s.schema(plural, versionName, parent)
	return p != nil && !slices.Contains(p.Required, name)
}

// bounds says whether a string field is bounded as asked.
func bounds(p *apiextensionsv1.JSONSchemaProps, least, most int64) bool {
	return isType(p, "string") && p.MinLength != nil && *p.MinLength == least && p.MaxLength != nil && *p.MaxLength == most
}

// resource is what discovery says of a resource in a version.
func (s *Shipped) resource(plural, versionName string) *metav1.APIResource {
	for i := range s.Resources[versionName] {
		if s.Resources[versionName][i].Name == plural {
			return &s.Resources[versionName][i]
		}
	}
	return nil
}

// namespaced checks that the API server serves resources in namespaces.
func namespaced(s *Shipped, plurals []string) error {
	var p problems
	for _, plural := range plurals {
		for _, v := range versions {
			r := s.resource(plural, v)
			p.unless(r != nil && r.Namespaced, "%s of %s is not served as a namespaced resource", plural, v)
		}
	}
	return p.err()
}

// breakNamespaced makes discovery say that a resource is cluster-scoped.
func breakNamespaced(s *Shipped, plural string) {
	for i := range s.Resources[v1beta1] {
		if s.Resources[v1beta1][i].Name == plural {
			s.Resources[v1beta1][i].Namespaced = false
		}
	}
}

// metadataFields checks for TypeMeta and ObjectMeta in schema and Go types.
func metadataFields(s *Shipped, plurals []string) error {
	var p problems
	for _, plural := range plurals {
		for _, v := range versions {
			p.unless(isType(s.schema(plural, v, "apiVersion"), "string"), "%s %s has no apiVersion", v, plural)
			p.unless(isType(s.schema(plural, v, "kind"), "string"), "%s %s has no kind", v, plural)
			p.unless(isType(s.schema(plural, v, "metadata"), "object"), "%s %s has no metadata", v, plural)
			fact := s.Types[v+"."+goKinds[plural]]
			p.unless(fact.TypeMeta && fact.ObjectMeta, "the Go type of %s %s does not embed TypeMeta and ObjectMeta", v, plural)
		}
	}
	return p.err()
}

// goKinds are the names of the Go types.
var goKinds = map[string]string{
	machines: "IngotMachine", machineTemplates: "IngotMachineTemplate",
	clusters: "IngotCluster", clusterTemplates: "IngotClusterTemplate",
}

// listType checks the list of a resource: its kind, and what the Go type embeds.
func listType(s *Shipped, plural string) error {
	var p problems
	names := s.definition(plural).Spec.Names
	p.unless(names.Kind != "" && names.ListKind == names.Kind+"List", "the list of %s is named %s", names.Kind, names.ListKind)
	for _, v := range versions {
		kind := goKinds[plural]
		fact, ok := s.Types[v+"."+kind+"List"]
		p.unless(ok && fact.TypeMeta && fact.ListMeta, "the Go type of the list of %s %s does not embed TypeMeta and ListMeta", v, kind)
		p.unless(fact.Items == kind, "items of the list of %s %s are %q", v, kind, fact.Items)
	}
	return p.err()
}

// breakList makes a list something else.
func breakList(s *Shipped, plural string) {
	key := v1beta1 + "." + goKinds[plural] + "List"
	fact := s.Types[key]
	fact.ListMeta = false
	s.Types[key] = fact
}
