// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	runtimeComponentsFile = "runtime-extension-components.yaml"
	runtimeBook           = "docs/book/runtime-extension.md"
)

// A part is one of the two providers of a release: its components file, and what clusterctl
// makes of it. The rules of components hold for each.
type part struct {
	// file is its name, label the provider's, and text what is in the file.
	file, label, text string
	components        []unstructured.Unstructured
	installed         Installation
	elsewhere         Installation
	// book is the page that documents its variables.
	book string
}

// parts are the infrastructure provider and the runtime extension.
func (s *Shipped) parts() []part {
	return []part{
		{componentsFile, "infrastructure-" + s.Name, s.Files[componentsFile], s.Components, s.Installed, s.Elsewhere, installBook},
		{runtimeComponentsFile, "runtime-extension-" + s.Name, s.Runtime.Files[runtimeComponentsFile], s.Runtime.Components, s.Runtime.Installed, s.Runtime.Elsewhere, runtimeBook},
	}
}

// ofEachPart checks both providers, and names the file of the one that fails.
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
