// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/test/needs"
)

func TestWriteRepository(t *testing.T) {
	needs.Tools(t, "kubectl")
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	version, err := clusterapi.Version(set)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ingot := clusterapi.Entry{Name: "ingot", Kind: "InfrastructureProvider", URL: "/r/infrastructure-ingot/v0.1.0/infrastructure-components.yaml"}
	file, err := clusterapi.WriteRepository(t.Context(), set, clusterapi.Repository{
		Dir:         dir,
		CertManager: clusterapi.CertManager{Manifest: "/r/cert-manager.yaml", Version: "v1.2.3"},
		Others:      []clusterapi.Entry{ingot},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Providers   []clusterapi.Entry `json:"providers"`
		CertManager map[string]string  `json:"cert-manager"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"url": "/r/cert-manager.yaml", "version": "v1.2.3"}, config.CertManager); diff != "" {
		t.Errorf("cert-manager (-want +got):\n%s", diff)
	}
	all := clusterapi.Providers()
	if got := config.Providers[len(all)]; got != ingot {
		t.Errorf("the last provider is %v, want %v", got, ingot)
	}
	// What the kubelet is told: the released image, and to use one that is there.
	container := regexp.MustCompile(`(?m)^        (image|imagePullPolicy): (.*)$`)
	for i, p := range all {
		manifest, err := os.ReadFile(config.Providers[i].URL)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, match := range container.FindAllStringSubmatch(string(manifest), -1) {
			got[match[1]] = match[2]
		}
		want := map[string]string{"image": p.Image + ":" + version, "imagePullPolicy": "IfNotPresent"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.Label, diff)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(config.Providers[i].URL), "metadata.yaml")); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteRepositoryWithoutCertManager(t *testing.T) {
	needs.Tools(t, "kubectl")
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	file, err := clusterapi.WriteRepository(t.Context(), set, clusterapi.Repository{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		CertManager map[string]string `json:"cert-manager"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"externallyProvisioned": "true"}, config.CertManager); diff != "" {
		t.Errorf("cert-manager (-want +got):\n%s", diff)
	}
}
