// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/test/needs"
)

// TestSnapshot: a control plane that is restored, and a copy of it, have what was there when
// etcd was saved and nothing later.
func TestSnapshot(t *testing.T) {
	needs.ControlPlane(t)
	needs.Built(t, "etcdutl", "make test-restore")
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Stop()
	create(t, cp, "before")
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := cp.Snapshot(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	create(t, cp, "after")

	other, err := cp.StartCopy(t.Context(), t.TempDir(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	holds(t, other, map[string]bool{"before": true, "after": false})
	holds(t, cp, map[string]bool{"before": true, "after": true})
	other.Stop()
	if err := cp.Restore(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	holds(t, cp, map[string]bool{"before": true, "after": false})
	if err := cp.Err(); err != nil {
		t.Error(err)
	}
}

func configMaps(t *testing.T, cp *controlplane.ControlPlane) func(string) (*corev1.ConfigMap, error) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) (*corev1.ConfigMap, error) {
		return clients.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	}
}

func create(t *testing.T, cp *controlplane.ControlPlane, name string) {
	t.Helper()
	if _, err := cp.Kubectl(t.Context(), "create", "configmap", name); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, cp *controlplane.ControlPlane, want map[string]bool) {
	t.Helper()
	get := configMaps(t, cp)
	for name, there := range want {
		_, err := get(name)
		if (err == nil) != there || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, want it there: %t", name, err, there)
		}
	}
}
