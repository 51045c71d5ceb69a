// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/yaml"
)

// runtimeProvider returns the components of the second provider as clusterctl installs them.
func runtimeProvider(t *testing.T, namespace string, variables map[string]string) client.Components {
	t.Helper()
	return furtherProvider(t, clusterctlv1.RuntimeExtensionProviderType, write(t).RuntimeComponents, namespace, variables)
}

// furtherProvider returns the components of another provider of the release as clusterctl installs them.
func furtherProvider(t *testing.T, kind clusterctlv1.ProviderType, url, namespace string, variables map[string]string) client.Components {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	config := map[string]any{"providers": []any{map[string]any{
		"name": "ingot", "type": string(kind), "url": url,
	}}}
	for k, v := range variables {
		config[k] = v
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	components, err := c.GenerateProvider(t.Context(), "ingot:"+testVersion, kind, client.ComponentsOptions{TargetNamespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return components
}

// The runtime extension is a provider for clusterctl: one namespace, one Deployment with one
// container named manager, and the ExtensionConfigs.
func TestRuntimeExtension(t *testing.T) {
	c := runtimeProvider(t, "", nil)
	got := map[string][]string{}
	for _, o := range c.Objs() {
		got[o.GetKind()] = append(got[o.GetKind()], o.GetName())
		slices.Sort(got[o.GetKind()])
	}
	const name = "ingot-runtime-extension"
	want := map[string][]string{
		"Namespace": {"ingot-runtime-system"}, "ServiceAccount": {name}, "ClusterRole": {name}, "ClusterRoleBinding": {name},
		"Issuer": {name}, "Certificate": {name}, "Service": {name}, "NetworkPolicy": {name}, "Deployment": {name}, "PodDisruptionBudget": {name},
		"ExtensionConfig": {"ingot", "ingot-in-place"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if c.TargetNamespace() != "ingot-runtime-system" || c.Version() != testVersion {
		t.Errorf("namespace %s, version %s", c.TargetNamespace(), c.Version())
	}
}

// In another namespace the ExtensionConfigs refer to it through the variable, because clusterctl
// does not change them.
func TestRuntimeExtensionElsewhere(t *testing.T) {
	const elsewhere = "elsewhere"
	for _, o := range runtimeProvider(t, elsewhere, map[string]string{"INGOT_RUNTIME_NAMESPACE": elsewhere}).Objs() {
		switch o.GetKind() {
		case "ExtensionConfig":
			namespace, _, _ := unstructured.NestedString(o.Object, "spec", "clientConfig", "service", "namespace")
			secret := o.GetAnnotations()["runtime.cluster.x-k8s.io/inject-ca-from-secret"]
			if namespace != elsewhere || secret != elsewhere+"/ingot-runtime-extension-cert" {
				t.Errorf("%s refers to %s, with the CA of %s", o.GetName(), namespace, secret)
			}
		case "Certificate":
			names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "dnsNames")
			if !slices.Contains(names, "ingot-runtime-extension.elsewhere.svc") {
				t.Errorf("the certificate is for %v", names)
			}
		case "Deployment", "Service", "ServiceAccount", "NetworkPolicy", "Issuer", "PodDisruptionBudget":
			if o.GetNamespace() != elsewhere {
				t.Errorf("%s is in %s", o.GetKind(), o.GetNamespace())
			}
		}
	}
}

// The variables are documented, and none is required.
func TestRuntimeVariablesAreDocumented(t *testing.T) {
	var documented []string
	for name, row := range tableOf(t, "reference/variables.md", "extension variable") {
		documented = append(documented, name)
		if len(row) < 2 || row[1] == "" {
			t.Errorf("%s is not described", name)
		}
	}
	slices.Sort(documented)
	got := runtimeProvider(t, "", nil).Variables()
	slices.Sort(got)
	if diff := cmp.Diff(got, documented); diff != "" {
		t.Errorf("variables (-components +docs/book/reference/variables.md):\n%s", diff)
	}
}

// The second class shares no object with the first one (K42).
func TestRuntimeClassStandsAlone(t *testing.T) {
	names := map[string]string{}
	for _, file := range []string{"clusterclass-ingot.yaml", "clusterclass-ingot-runtime.yaml"} {
		text := read(t, filepath.Join(root, "templates", file))
		if strings.Contains(text, "${") {
			t.Errorf("%s has a variable", file)
		}
		for _, o := range parse(t, text) {
			key := o.GetKind() + " " + o.GetName()
			if other, ok := names[key]; ok {
				t.Errorf("%s is in %s and %s", key, other, file)
			}
			names[key] = file
		}
	}
}
