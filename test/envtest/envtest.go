// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ingot-metal/ingot/test/needs"
)

// Start starts etcd and kube-apiserver on loopback, installs the custom
// resource definitions found in crdDirs, and returns the credentials of an
// administrator. Both are stopped when the test ends. It takes about five
// seconds, so packages start one and share it between their tests.
func Start(t testing.TB, crdDirs ...string) *rest.Config {
	t.Helper()
	env := Environment(t, crdDirs...)
	return StartEnvironment(t, env)
}

// Environment returns what Start would start, for tests that add to it first,
// for example webhooks.
func Environment(t testing.TB, crdDirs ...string) *crenvtest.Environment {
	t.Helper()
	existing := false // never the cluster of somebody's kubeconfig, whatever the environment says
	return &crenvtest.Environment{
		BinaryAssetsDirectory: needs.ControlPlane(t),
		CRDDirectoryPaths:     crdDirs,
		ErrorIfCRDPathMissing: true,
		UseExistingCluster:    &existing,
		// The default of 20 s is short where several packages start at once
		// on two cores.
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
}

// StartEnvironment starts env and stops it when the test ends.
func StartEnvironment(t testing.TB, env *crenvtest.Environment) *rest.Config {
	t.Helper()
	cfg, err := env.Start()
	// A failed start can leave etcd running.
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("envtest: stop: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("envtest: start: %v", err)
	}
	return cfg
}

// IngotCRDs returns the directory of this source tree's generated custom
// resource definitions.
func IngotCRDs(t testing.TB) string {
	t.Helper()
	return filepath.Join(needs.Tools(t).Root(), "config", "crd", "bases")
}

// ClusterAPICRDs returns the directory of the core Cluster API custom resource
// definitions (Cluster, Machine, MachineDeployment, …) of the release that
// hack/tools/capi pins. Their conversion webhooks do not run here: only the
// storage version, v1beta2, can be used.
func ClusterAPICRDs(t testing.TB) string {
	t.Helper()
	dir, err := needs.Tools(t).ModuleDir(t.Context(), "capi", "sigs.k8s.io/cluster-api")
	if err != nil {
		t.Fatalf("envtest: %v", err)
	}
	return filepath.Join(dir, "core", "config", "crd", "bases")
}
