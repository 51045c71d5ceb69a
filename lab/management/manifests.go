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

// isForPods reports whether a kind concerns Pods, which the lab has none of: it has no kubelet
// and starts managers itself.
func isForPods(kind string) bool { return kind == "Deployment" || kind == "NetworkPolicy" }

// separator ends a document in what kustomize renders.
const separator = "\n---\n"

// applied drops the documents that the lab has no use for: kinds that concern Pods, and the
// objects of a group that is not defined ("" means none).
func applied(manifests []byte, missingGroup string) ([]byte, error) {
	var kept []string
	for i, document := range strings.Split(string(manifests), separator) {
		var object struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("document %d of the manifests: %w", i+1, err)
		}
		undefined := missingGroup != "" && strings.HasPrefix(object.APIVersion, missingGroup+"/")
		if object.APIVersion != "" && !isForPods(object.Kind) && !undefined {
			kept = append(kept, strings.TrimRight(document, "\n"))
		}
	}
	return []byte(strings.Join(kept, separator) + "\n"), nil
}
