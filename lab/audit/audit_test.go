// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/audit"
)

const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages:
- RequestReceived
rules:
- level: Metadata
  resources:
  - group: ""
    resources:
    - secrets
    - configmaps
    - serviceaccounts/token
  - group: authentication.k8s.io
    resources:
    - tokenreviews
- level: RequestResponse
  resources:
  - group: infrastructure.cluster.x-k8s.io
- level: Metadata
`

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	got, err := audit.Arguments(dir, "infrastructure.cluster.x-k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--audit-policy-file=" + filepath.Join(dir, "audit-policy.yaml"),
		"--audit-log-path=" + audit.File(dir),
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=1000000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	written, err := os.ReadFile(filepath.Join(dir, "audit-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(policy, string(written)); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}
