// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	runtimeComponentsFile = "runtime-extension-components.yaml"
	bootComponentsFile    = "addon-components.yaml"
	runtimeBook           = "docs/book/reference/variables.md"
)

// A part is one of the providers of a release: its components file, and what clusterctl
// makes of it. The rules of components hold for each.
type part struct {
	// file is its name, and label the provider's.
	file, label string
	// files of its directory in the repository, by name.
	files      map[string]string
	components []unstructured.Unstructured
	installed  Installation
	elsewhere  Installation
	// book is the page that documents its variables.
	book string
}

// parts are the infrastructure provider, the runtime extension and the boot servers.
func (s *Shipped) parts() []part {
	return []part{
		{componentsFile, "infrastructure-" + s.Name, s.Files, s.Components, s.Installed, s.Elsewhere, installBook},
		s.Runtime.part(runtimeComponentsFile, "runtime-extension-"+s.Name, runtimeBook),
		s.Boot.part(bootComponentsFile, "addon-"+s.Name, installBook),
	}
}

// A FurtherProvider is one beside the infrastructure provider.
type FurtherProvider struct {
	// Files of its directory in the repository, by name.
	Files map[string]string
	// Components are the objects of its file; Installed is what clusterctl would create,
	// and Elsewhere the same in another target namespace.
	Components           []unstructured.Unstructured
	Installed, Elsewhere Installation
}

func (f FurtherProvider) part(file, label, book string) part {
	return part{file, label, f.Files, f.Components, f.Installed, f.Elsewhere, book}
}

// clone copies what a Break may change.
func (f FurtherProvider) clone() FurtherProvider {
	f.Files, f.Installed.Variables = maps.Clone(f.Files), slices.Clone(f.Installed.Variables)
	f.Components, f.Installed.Objects, f.Elsewhere.Objects = cloneObjects(f.Components), cloneObjects(f.Installed.Objects), cloneObjects(f.Elsewhere.Objects)
	return f
}

// ofEachPart checks all providers, and names the file of the one that fails.
func ofEachPart(check func(s *Shipped, of part) error) func(*Shipped) error {
	return func(s *Shipped) error {
		var p problems
		for _, of := range s.parts() {
			if err := check(s, of); err != nil {
				p = append(p, fmt.Errorf("%s: %w", of.file, err))
			}
		}
		return p.err()
	}
}

// namespace of the components; empty if they have none.
func (of part) namespace() string {
	for _, o := range ofKind(of.components, "Namespace") {
		return o.GetName()
	}
	return ""
}
