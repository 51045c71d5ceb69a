// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutGroup(t *testing.T) {
	const in = `apiVersion: v1
kind: Namespace
---
apiVersion: cert-manager.io/v1
kind: Issuer
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  annotations: {cert-manager.io/inject-ca-from: a/b}
---
apiVersion: cert-manager.io/v1
kind: Certificate
`
	const want = `apiVersion: v1
kind: Namespace
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  annotations: {cert-manager.io/inject-ca-from: a/b}
`
	got, err := withoutGroup([]byte(in), certManagerGroup)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := withoutGroup([]byte("a: b\n---\n\t: c"), certManagerGroup); err == nil {
		t.Error("what is not YAML was taken")
	}
}
