// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// certManagerGroup is the API group of cert-manager's kinds.
const certManagerGroup = "cert-manager.io"

// separator ends a document in what kustomize renders.
const separator = "\n---\n"

// withoutGroup drops the documents of one API group.
func withoutGroup(manifests []byte, group string) ([]byte, error) {
	var kept []string
	for i, document := range strings.Split(string(manifests), separator) {
		var object struct {
			APIVersion string `json:"apiVersion"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("document %d of the manifests: %w", i+1, err)
		}
		if object.APIVersion != "" && !strings.HasPrefix(object.APIVersion, group+"/") {
			kept = append(kept, strings.TrimRight(document, "\n"))
		}
	}
	return []byte(strings.Join(kept, separator) + "\n"), nil
}
