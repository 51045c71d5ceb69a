// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Shipped is what a release holds, and what the real clusterctl and a real API
// server make of it.
type Shipped struct {
	// Name and Type of the provider as clusterctl knows them: ingot, InfrastructureProvider.
	Name, Type string
	// Label and Version are the directories of the repository: infrastructure-ingot/v0.1.0.
	Label, Version string
	// Files of that directory by name.
	Files map[string]string
	// BuiltIn are the providers that clusterctl knows by itself.
	BuiltIn []Provider
	// License is the text of the licence.
	License string
	// Docs are the operator's book: path in the source tree to text.
	Docs map[string]string
	// Flags of the manager's program.
	Flags []string

	// Metadata is metadata.yaml.
	Metadata Metadata
	// Components are the objects of the components file before clusterctl, with
	// variables as they are.
	Components []unstructured.Unstructured
	// Installed is what clusterctl would create, in the default namespace.
	Installed Installation
	// Elsewhere is the same with another target namespace.
	Elsewhere Installation
	// Templates are the cluster templates by flavor; the default one has none.
	Templates map[string]Template

	// Definitions of Ingot's kinds, as the API server reports them.
	Definitions []apiextensionsv1.CustomResourceDefinition
	// Resources are what the API server's discovery says of the group, by version.
	Resources map[string][]metav1.APIResource
	// Types are the Go types by "<version>.<kind>".
	Types map[string]TypeFact
	// Requests are admission attempts with the API server's answers, by name.
	Requests map[string]Answer

	// Runtime is the runtime extension, and Boot the boot servers: clusterctl's further
	// providers.
	Runtime RuntimeExtension
	Boot    FurtherProvider
}

// A Provider is an entry in clusterctl's list.
type Provider struct{ Name, Type, URL string }

// Metadata is what metadata.yaml says.
type Metadata struct {
	APIVersion    string   `json:"apiVersion"`
	Kind          string   `json:"kind"`
	ReleaseSeries []Series `json:"releaseSeries"`
}

// A Series maps releases to the contract that they keep.
type Series struct {
	Major    int    `json:"major"`
	Minor    int    `json:"minor"`
	Contract string `json:"contract"`
}

// An Installation is what clusterctl makes of the components file.
type Installation struct {
	// Namespace that it was made for.
	Namespace string
	Objects   []unstructured.Unstructured
	Variables []string
	// Err is why clusterctl refused; empty if it did not.
	Err string
}

// A Template is a cluster template and what clusterctl makes of it.
type Template struct {
	// File in the repository.
	File string
	// Variables and those of them that have a default.
	Variables, Defaulted []string
	// Objects for the namespace that was asked for.
	Namespace string
	Objects   []unstructured.Unstructured
	Err       string
	// Missing is what clusterctl says if no variable is set.
	Missing string
}

// A TypeFact is what a Go type embeds.
type TypeFact struct {
	TypeMeta, ObjectMeta, ListMeta bool
	// Items is the kind of the elements of a list.
	Items string
}

// An Answer is the API server's verdict on a request.
type Answer struct {
	Allowed bool
	// Webhook is who refused; empty for the schema.
	Webhook string
	// Message of the refusal.
	Message string
}

// Clone copies all that a Break may change.
func (s *Shipped) Clone() *Shipped {
	c := *s
	c.Runtime, c.Boot = s.Runtime.clone(), s.Boot.clone()
	c.Files, c.Docs, c.Requests, c.Types = maps.Clone(s.Files), maps.Clone(s.Docs), maps.Clone(s.Requests), maps.Clone(s.Types)
	c.BuiltIn, c.Flags = slices.Clone(s.BuiltIn), slices.Clone(s.Flags)
	c.Metadata.ReleaseSeries = slices.Clone(s.Metadata.ReleaseSeries)
	c.Components = cloneObjects(s.Components)
	c.Installed.Objects, c.Elsewhere.Objects = cloneObjects(s.Installed.Objects), cloneObjects(s.Elsewhere.Objects)
	c.Installed.Variables = slices.Clone(s.Installed.Variables)
	c.Templates = map[string]Template{}
	for name, template := range s.Templates {
		template.Objects = cloneObjects(template.Objects)
		template.Variables, template.Defaulted = slices.Clone(template.Variables), slices.Clone(template.Defaulted)
		c.Templates[name] = template
	}
	c.Definitions = nil
	for i := range s.Definitions {
		c.Definitions = append(c.Definitions, *s.Definitions[i].DeepCopy())
	}
	c.Resources = map[string][]metav1.APIResource{}
	for version, list := range s.Resources {
		c.Resources[version] = slices.Clone(list)
	}
	return &c
}

func cloneObjects(objects []unstructured.Unstructured) []unstructured.Unstructured {
	out := make([]unstructured.Unstructured, len(objects))
	for i := range objects {
		out[i] = *objects[i].DeepCopy()
	}
	return out
}
