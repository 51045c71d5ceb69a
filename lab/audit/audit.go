// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const policyFile = "audit-policy.yaml"

// File returns the path of the log of an API server whose state is in dir.
func File(dir string) string { return filepath.Join(dir, "audit.log") }

// Arguments writes the policy into dir and returns the arguments by which
// kube-apiserver follows it. Each request gives one event, when it is answered.
func Arguments(dir string, groupsWithBodies ...string) ([]string, error) {
	data, err := yaml.Marshal(newPolicy(groupsWithBodies))
	if err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	path := filepath.Join(dir, policyFile)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + path,
		"--audit-log-path=" + File(dir),
		// Batches would make a reader wait, and a kill lose events.
		"--audit-log-mode=blocking",
		// In megabytes; none is 100, and then a reader finds a new, empty file.
		"--audit-log-maxsize=1000000",
	}, nil
}

// A policy is a Policy of audit.k8s.io/v1, the parts of it that are used here;
// its Go type would bring the whole API server.
type policy struct {
	metav1.TypeMeta `json:",inline"`
	OmitStages      []string `json:"omitStages"`
	Rules           []rule   `json:"rules"`
}

// A rule gives the level of the requests that it is the first to match.
type rule struct {
	Level     string     `json:"level"`
	Resources []resource `json:"resources,omitempty"`
}

type resource struct {
	Group     string   `json:"group"`
	Resources []string `json:"resources,omitempty"`
}

func newPolicy(groupsWithBodies []string) policy {
	p := policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "audit.k8s.io/v1", Kind: "Policy"},
		OmitStages: []string{"RequestReceived"},
		Rules: []rule{{Level: "Metadata", Resources: []resource{
			{Group: "", Resources: []string{"secrets", "configmaps", "serviceaccounts/token"}},
			{Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}},
		}}},
	}
	if len(groupsWithBodies) > 0 {
		bodies := rule{Level: "RequestResponse"}
		for _, group := range groupsWithBodies {
			bodies.Resources = append(bodies.Resources, resource{Group: group})
		}
		p.Rules = append(p.Rules, bodies)
	}
	p.Rules = append(p.Rules, rule{Level: "Metadata"})
	return p
}
