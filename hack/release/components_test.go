// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"
)

// clusterctl returns clusterctl's library with the release as its only provider,
// away from the user's own configuration and cluster.
func clusterctl(t *testing.T, r *Release, variables map[string]string) client.Client {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	config := map[string]any{"providers": []any{map[string]any{
		"name": "ingot", "type": string(clusterctlv1.InfrastructureProviderType), "url": r.Components,
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
	return c
}

// provider returns the components as "clusterctl generate provider" does, after a check of series
// and contract.
func provider(t *testing.T, r *Release, namespace string, variables map[string]string) client.Components {
	t.Helper()
	components, err := clusterctl(t, r, variables).GenerateProvider(t.Context(), "ingot:"+testVersion,
		clusterctlv1.InfrastructureProviderType, client.ComponentsOptions{TargetNamespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return components
}

// clusterScoped are the cluster-scoped kinds of the components.
var clusterScoped = []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}

// All components are in the target namespace (K17, K18) and have the provider's label (K28). No
// field names another namespace.
func TestComponentsInANamespace(t *testing.T) {
	r := write(t)
	for _, namespace := range []string{"", "metal"} {
		want := namespace
		if want == "" {
			want = "ingot-system"
		}
		t.Run(want, func(t *testing.T) {
			components := provider(t, r, namespace, nil)
			if components.TargetNamespace() != want {
				t.Errorf("target namespace %q, want %q", components.TargetNamespace(), want)
			}
			if diff := cmp.Diff([]string{r.Image}, slices.Compact(components.Images())); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			for _, o := range components.Objs() {
				checkNamespace(t, o, want)
				if want != "ingot-system" && strings.Contains(fmt.Sprint(withoutSchema(o).Object), "ingot-system") {
					t.Errorf("%s %s still names ingot-system", o.GetKind(), o.GetName())
				}
			}
		})
	}
	for _, o := range parse(t, read(t, r.Components)) {
		if got := o.GetLabels()["cluster.x-k8s.io/provider"]; got != Provider {
			t.Errorf("%s %s has the provider label %q", o.GetKind(), o.GetName(), got)
		}
	}
}

func checkNamespace(t *testing.T, o unstructured.Unstructured, want string) {
	t.Helper()
	switch {
	case o.GetKind() == "Namespace":
		if o.GetName() != want {
			t.Errorf("the Namespace is %s, want %s", o.GetName(), want)
		}
	case slices.Contains(clusterScoped, o.GetKind()):
		if o.GetNamespace() != "" {
			t.Errorf("%s %s has a namespace", o.GetKind(), o.GetName())
		}
	case o.GetNamespace() != want:
		t.Errorf("%s %s is in %q, want %s", o.GetKind(), o.GetName(), o.GetNamespace(), want)
	}
}

// withoutSchema removes the schema of a definition, whose descriptions may mention namespaces.
func withoutSchema(o unstructured.Unstructured) unstructured.Unstructured {
	if o.GetKind() != "CustomResourceDefinition" {
		return o
	}
	o = *o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "spec", "versions")
	return o
}

// There is one Namespace, and each Deployment has a container named manager that watches all
// namespaces (K17, K19–K21).
func TestDeployments(t *testing.T) {
	t.Run("infrastructure", func(t *testing.T) { checkDeployments(t, provider(t, write(t), "", nil), "ingot-controller-manager") })
	t.Run("boot servers", func(t *testing.T) { checkDeployments(t, bootProvider(t, "", nil), "ingot-boot") })
}

func checkDeployments(t *testing.T, components client.Components, want string) {
	t.Helper()
	counts := map[string]int{}
	var deployments []string
	for _, o := range components.Objs() {
		counts[o.GetKind()]++
		if o.GetKind() != "Deployment" {
			continue
		}
		deployments = append(deployments, o.GetName())
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatalf("%s: containers %v, %v", o.GetName(), containers, err)
		}
		manager := containers[0].(map[string]any)
		if manager["name"] != "manager" {
			t.Errorf("%s: the container is %v", o.GetName(), manager["name"])
		}
		if args, _ := manager["args"].([]any); !slices.Contains(args, any("--namespace=")) {
			t.Errorf("%s: no --namespace= in %v", o.GetName(), args)
		}
		// The Pod must run on the image's platform.
		nodes, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "spec", "nodeSelector")
		if diff := cmp.Diff(map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, nodes); err != nil || diff != "" {
			t.Errorf("%s: nodes (-want +got), %v:\n%s", o.GetName(), err, diff)
		}
	}
	slices.Sort(deployments)
	if diff := cmp.Diff([]string{want}, deployments); diff != "" {
		t.Errorf("deployments (-want +got):\n%s", diff)
	}
	if counts["Namespace"] != 1 {
		t.Errorf("%d Namespace objects", counts["Namespace"])
	}
}

// Definitions have the names that Cluster API computes (M10) and the labels of the contract in
// metadata.yaml (M09, K14).
func TestDefinitionsAndContract(t *testing.T) {
	r := write(t)
	var metadata clusterctlv1.Metadata
	if err := yaml.UnmarshalStrict([]byte(read(t, r.Metadata)), &metadata); err != nil {
		t.Fatal(err)
	}
	series := metadata.GetReleaseSeriesForContract("v1beta2")
	if series == nil || series.Major != 0 || series.Minor != 1 {
		t.Errorf("the series of contract v1beta2 is %v, want 0.1", series)
	}
	var contracted []string
	for _, o := range parse(t, read(t, r.Components)) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		if want := contract.CalculateCRDName(group, kind); o.GetName() != want {
			t.Errorf("%s: the definition is called %s, want %s", kind, o.GetName(), want)
		}
		if versions, ok := o.GetLabels()["cluster.x-k8s.io/"+series.Contract]; ok {
			contracted = append(contracted, kind)
			served, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			if !slices.ContainsFunc(served, func(v any) bool { return v.(map[string]any)["name"] == versions }) {
				t.Errorf("%s: the label names version %q, which is not served", kind, versions)
			}
		}
	}
	slices.Sort(contracted)
	want := []string{"IngotCluster", "IngotClusterTemplate", "IngotMachine", "IngotMachineTemplate", "IngotRemediation", "IngotRemediationTemplate"}
	if diff := cmp.Diff(want, contracted); diff != "" {
		t.Errorf("kinds of contract %s (-want +got):\n%s", series.Contract, diff)
	}
}

// Variables set the intended fields, and the components can be installed without any (K23–K27).
func TestVariablesOfTheComponents(t *testing.T) {
	r := write(t)
	boot := func(c client.Components) map[string]any {
		for _, o := range c.Objs() {
			if o.GetKind() == "Deployment" && o.GetName() == "ingot-boot" {
				return o.Object
			}
		}
		t.Fatal("no Deployment ingot-boot")
		return nil
	}
	plain := boot(bootProvider(t, "", nil))
	set := boot(bootProvider(t, "", map[string]string{
		"INGOT_BOOT_ADDRESS": "192.0.2.7", "INGOT_BOOT_INTERFACE": "enp3s0", "INGOT_IMAGE_SOURCES": "*.example.com,10.20.0.0/16",
	}))
	for _, word := range []string{"192.0.2.7", "enp3s0", "*.example.com,10.20.0.0/16"} {
		if strings.Contains(fmt.Sprint(plain), word) || !strings.Contains(fmt.Sprint(set), word) {
			t.Errorf("%s did not arrive in the Deployment", word)
		}
	}
	if !strings.Contains(fmt.Sprint(plain), "--image-sources= ") {
		t.Errorf("without sources there are some: %v", plain)
	}
	var documented []string
	for name, row := range tableOf(t, "reference/variables.md", "variable") {
		documented = append(documented, name)
		if len(row) < 2 || row[1] == "" {
			t.Errorf("%s is not described", name)
		}
	}
	slices.Sort(documented)
	got := append(provider(t, r, "", nil).Variables(), bootProvider(t, "", nil).Variables()...)
	slices.Sort(got)
	got = slices.Compact(got)
	if diff := cmp.Diff(got, documented); diff != "" {
		t.Errorf("variables (-components +docs/book/reference/variables.md):\n%s", diff)
	}
	upper := regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	for _, name := range got {
		if !upper.MatchString(name) {
			t.Errorf("clusterctl cannot read a variable called %s from its configuration", name)
		}
	}
}

// Some clusterctl commands read the components without substitution (init list-images, generate
// provider --describe and --raw), so a variable must not replace a number.
func TestComponentsBeforeSubstitution(t *testing.T) {
	r := write(t)
	components, err := clusterctl(t, r, nil).GenerateProvider(t.Context(), "ingot:"+testVersion,
		clusterctlv1.InfrastructureProviderType, client.ComponentsOptions{SkipTemplateProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{r.Image}, slices.Compact(components.Images())); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// parse parses YAML documents without substitution.
func parse(t *testing.T, manifests string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for _, document := range strings.Split(manifests, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// tableOf reads a table of the book, found by the head of its first column: the
// other cells by the first, without code marks.
func tableOf(t *testing.T, page, head string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	inside := false
	for line := range strings.Lines(read(t, filepath.Join(root, "docs", "book", page))) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		switch {
		case cells[0] == head:
			inside = true
		case inside && !strings.HasPrefix(cells[0], "--"):
			rows[cells[0]] = cells[1:]
		}
	}
	if len(rows) == 0 {
		t.Fatalf("docs/book/%s has no table of %ss", page, head)
	}
	return rows
}

// The book documents the node label that the boot servers prefer.
func TestBootLabelIsDocumented(t *testing.T) {
	const label = "ingot.infrastructure.cluster.x-k8s.io/boot"
	var keys []string
	for _, o := range bootProvider(t, "", nil).Objs() {
		if o.GetKind() != "Deployment" || o.GetName() != "ingot-boot" {
			continue
		}
		walk(o.Object, func(key string, value any) {
			if affinity, ok := value.(map[string]any); ok && key == "nodeAffinity" {
				walk(affinity, func(key string, value any) {
					if key == "key" {
						keys = append(keys, fmt.Sprint(value))
					}
				})
			}
		})
	}
	if diff := cmp.Diff([]string{label}, keys); diff != "" {
		t.Errorf("labels that ingot-boot prefers (-want +got):\n%s", diff)
	}
	if !strings.Contains(read(t, filepath.Join(root, "docs", "book", "tasks", "install.md")), label+"=") {
		t.Errorf("docs/book/tasks/install.md does not mention the node label %s", label)
	}
}
