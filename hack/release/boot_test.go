// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

// bootProvider returns the components of the third provider as clusterctl installs them.
func bootProvider(t *testing.T, namespace string, variables map[string]string) client.Components {
	t.Helper()
	return furtherProvider(t, clusterctlv1.AddonProviderType, write(t).BootComponents, namespace, variables)
}

// The boot servers are a provider for clusterctl with a namespace that allows the host network,
// while the manager's namespace is restricted.
func TestBootServersHaveTheirNamespace(t *testing.T) {
	level := func(objects []unstructured.Unstructured) (levels []string) {
		for _, o := range objects {
			if o.GetKind() == "Namespace" {
				levels = append(levels, o.GetName()+" "+o.GetLabels()["pod-security.kubernetes.io/enforce"])
			}
		}
		return levels
	}
	c := bootProvider(t, "", nil)
	if diff := cmp.Diff([]string{"ingot-boot-system privileged"}, level(c.Objs())); diff != "" {
		t.Errorf("the boot servers' namespace (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ingot-system restricted"}, level(provider(t, write(t), "", nil).Objs())); diff != "" {
		t.Errorf("the manager's namespace (-want +got):\n%s", diff)
	}
	for _, o := range c.Objs() {
		checkNamespace(t, o, "ingot-boot-system")
		if got := o.GetLabels()["cluster.x-k8s.io/provider"]; got != bootProviderDir {
			t.Errorf("%s %s has the provider label %q", o.GetKind(), o.GetName(), got)
		}
	}
}

// In any namespaces, the manager may write the boot servers' keys, and they find its agent API.
func TestBootServersFindTheManager(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace string
		variables map[string]string
		manager   string
	}{
		"as released": {"", nil, "ingot-system"},
		"elsewhere":   {"metal-boot", map[string]string{"INGOT_NAMESPACE": "metal"}, "metal"},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			for _, o := range bootProvider(t, tc.namespace, tc.variables).Objs() {
				switch text := fmt.Sprint(o.Object); o.GetKind() {
				case "RoleBinding":
					found++
					if !strings.Contains(text, "system:serviceaccount:"+tc.manager+":ingot-controller-manager") {
						t.Errorf("the keys are written by another subject: %s", text)
					}
				case "Deployment":
					found++
					if !strings.Contains(text, "--agent-upstream=ingot-agent."+tc.manager+".svc:8843") {
						t.Errorf("the agent API is not that of %s: %s", tc.manager, text)
					}
				}
			}
			if found != 2 {
				t.Errorf("checked %d objects", found)
			}
		})
	}
}

// With the component own-namespace, the manager reads Secrets and watches only in its namespace,
// and clusterctl accepts the result in any namespace.
func TestOwnNamespaceComponent(t *testing.T) {
	r, dir := write(t), t.TempDir()
	component, err := filepath.Abs(filepath.Join(root, "config", "components", "own-namespace"))
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay")
	if err := os.CopyFS(filepath.Join(dir, "own-namespace"), os.DirFS(component)); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"infrastructure-components.yaml": read(t, r.Components),
		"kustomization.yaml":             "resources: [infrastructure-components.yaml]\ncomponents: [../own-namespace]\n",
	} {
		if err := os.MkdirAll(overlay, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(overlay, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rendered, err := kustomize(t.Context(), overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Components, rendered, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"", "dc1"} {
		want := namespace
		if want == "" {
			want = "ingot-system"
		}
		var secretsIn []string
		for _, o := range provider(t, r, namespace, nil).Objs() {
			checkNamespace(t, o, want)
			switch o.GetKind() {
			case "ClusterRole", "Role":
				rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
				for _, rule := range rules {
					resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
					verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
					if slices.Contains(resources, "secrets") && slices.Contains(verbs, "list") {
						secretsIn = append(secretsIn, o.GetKind()+" "+o.GetNamespace())
					}
				}
			case "Deployment":
				if text := fmt.Sprint(o.Object); !strings.Contains(text, "--namespace=$(POD_NAMESPACE)") {
					t.Errorf("the manager watches all namespaces: %s", text)
				}
			}
		}
		if diff := cmp.Diff([]string{"Role " + want}, secretsIn); diff != "" {
			t.Errorf("who lists Secrets (-want +got):\n%s", diff)
		}
	}
}
