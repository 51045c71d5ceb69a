// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApplied(t *testing.T) {
	const (
		namespace = "apiVersion: v1\nkind: Namespace\n"
		issuer    = "apiVersion: cert-manager.io/v1\nkind: Issuer\n"
		role      = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  annotations: {cert-manager.io/inject-ca-from: a/b}\n"
		// A Deployment's arguments hold variables that only clusterctl knows.
		deployment = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 1\n"
		// So does a NetworkPolicy.
		policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec:\n  podSelector: {}\n"
	)
	all := namespace + "---\n" + issuer + "---\n" + role + "---\n" + deployment + "---\n" + policy
	for name, tc := range map[string]struct {
		missing, want string
	}{
		"with cert-manager":    {want: namespace + "---\n" + issuer + "---\n" + role},
		"without cert-manager": {missing: certManagerGroup, want: namespace + "---\n" + role},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := applied([]byte(all), tc.missing)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := applied([]byte("a: b\n---\n\t: c"), ""); err == nil {
		t.Error("what is not YAML was taken")
	}
}
