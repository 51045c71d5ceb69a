// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	apiv1beta1 "github.com/ingot-metal/ingot/api/v1beta1"
	apiv1beta2 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
)

// shippedVersion is what the tests release.
const shippedVersion = "v0.1.0"

// elsewhere is another target namespace.
const elsewhere = "metal"

// ship writes a release and looks at it: as files, by clusterctl, and installed in
// an API server.
func ship(t *testing.T) *Shipped {
	t.Helper()
	set, err := tools.Open()
	check(t, err)
	s := shipFiles(t, set.Root(), nil, "")
	s.install(t)
	return s
}

// shipFiles writes the release of a source tree, and looks at it as files and by clusterctl.
// If the tree is another one with only one file changed, whose release is whole, clusterctl
// is asked only what the file can change.
func shipFiles(t *testing.T, root string, whole *Shipped, file string) *Shipped {
	t.Helper()
	r, err := release.Write(t.Context(), release.Options{Root: root, Version: shippedVersion, Out: t.TempDir(), NoImages: true})
	check(t, err)
	s := &Shipped{
		Name: "ingot", Type: string(clusterctlv1.InfrastructureProviderType),
		Label: filepath.Base(filepath.Dir(r.Dir)), Version: filepath.Base(r.Dir),
		Files: readDir(t, r.Dir), License: read(t, filepath.Join(root, "LICENSE")), Docs: map[string]string{},
		Types: typeFacts(t), Requests: map[string]Answer{},
	}
	book := filepath.Join(root, "docs", "book")
	check(t, filepath.WalkDir(book, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		s.Docs[filepath.ToSlash(name)] = read(t, path)
		return err
	}))
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	app.DefaultOptions().AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) { s.Flags = append(s.Flags, f.Name) })
	check(t, yaml.UnmarshalStrict([]byte(s.Files[metadataFile]), &s.Metadata))
	s.Components, _ = parse(s.Files[componentsFile]) // K02 reports an error
	if whole != nil {
		s.BuiltIn, s.Installed, s.Elsewhere, s.Templates, s.Runtime, s.Boot = whole.BuiltIn, whole.Installed, whole.Elsewhere, whole.Templates, whole.Runtime, whole.Boot
	}
	below := func(dirs ...string) bool {
		return whole == nil || slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file, dir) })
	}
	further, inConfig := below("config/runtime-extension/", "config/boot/"), below("config/")
	if whole == nil || inConfig && !further || below(metadataFile) {
		s.runClusterctl(t, r)
	}
	if below("config/runtime-extension/", metadataFile) {
		s.Runtime.FurtherProvider = furtherProvider(t, clusterctlv1.RuntimeExtensionProviderType, r.RuntimeComponents, map[string]string{"INGOT_RUNTIME_NAMESPACE": elsewhere})
	}
	if below("config/boot/", metadataFile) {
		s.Boot = furtherProvider(t, clusterctlv1.AddonProviderType, r.BootComponents, nil)
	}
	if below("templates/", metadataFile) {
		s.renderTemplates(t, r)
	}
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return string(data)
}

func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		if !entry.IsDir() {
			files[entry.Name()] = read(t, filepath.Join(dir, entry.Name()))
		}
	}
	return files
}

// typeFacts looks at what the Go types embed.
func typeFacts(t *testing.T) map[string]TypeFact {
	t.Helper()
	scheme := runtime.NewScheme()
	check(t, apiv1beta1.AddToScheme(scheme))
	check(t, apiv1beta2.AddToScheme(scheme))
	facts := map[string]TypeFact{}
	for gvk, goType := range scheme.AllKnownTypes() {
		if gvk.Group != group || !strings.HasPrefix(gvk.Kind, "Ingot") {
			continue
		}
		fact := TypeFact{
			TypeMeta: embeds[metav1.TypeMeta](goType), ObjectMeta: embeds[metav1.ObjectMeta](goType), ListMeta: embeds[metav1.ListMeta](goType),
		}
		if items, ok := goType.FieldByName("Items"); ok && items.Tag.Get("json") == "items" && items.Type.Kind() == reflect.Slice {
			fact.Items = items.Type.Elem().Name()
		}
		facts[gvk.Version+"."+gvk.Kind] = fact
	}
	return facts
}

func embeds[T any](in reflect.Type) bool {
	field, ok := in.FieldByName(reflect.TypeFor[T]().Name())
	return ok && field.Anonymous && field.Type == reflect.TypeFor[T]()
}

// requiredVariables are the least that an operator must say to the templates.
var requiredVariables = map[string]string{
	"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.10",
	"INGOT_IMAGE_URL":             "https://images.example/os.raw.zst",
	"INGOT_IMAGE_CHECKSUM":        "sha256:" + strings.Repeat("ab", 32),
}

// clusterctlFor is clusterctl's library with the release as provider, away from the
// user's own configuration and cluster.
func clusterctlFor(t *testing.T, components string, variables map[string]string) client.Client {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	settings := map[string]any{"providers": []any{map[string]any{
		"name": "ingot", "type": string(clusterctlv1.InfrastructureProviderType), "url": components,
	}}}
	for k, v := range variables {
		settings[k] = v
	}
	data, err := yaml.Marshal(settings)
	check(t, err)
	path := filepath.Join(t.TempDir(), "clusterctl.yaml")
	check(t, os.WriteFile(path, data, 0o600))
	c, err := client.New(t.Context(), path)
	check(t, err)
	return c
}

// runClusterctl lets clusterctl work on the release.
func (s *Shipped) runClusterctl(t *testing.T, r *release.Release) {
	t.Helper()
	list, err := config.New(t.Context(), "", config.InjectReader(config.NewMemoryReader()))
	check(t, err)
	known, err := list.Providers().List()
	check(t, err)
	for _, p := range known {
		s.BuiltIn = append(s.BuiltIn, Provider{Name: p.Name(), Type: string(p.Type()), URL: p.URL()})
	}
	s.Installed = installation(t, r, "")
	s.Elsewhere = installation(t, r, elsewhere)
}

// renderTemplates lets clusterctl make a cluster of each template.
func (s *Shipped) renderTemplates(t *testing.T, r *release.Release) {
	t.Helper()
	s.Templates = map[string]Template{}
	for name, content := range s.Files {
		if templateFile.MatchString(name) {
			flavor := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(name, "cluster-template"), ".yaml"), "-")
			s.Templates[flavor] = generated(t, r, flavor, name, content)
		}
	}
}

// installation is "clusterctl generate provider".
func installation(t *testing.T, r *release.Release, namespace string) Installation {
	t.Helper()
	c, err := clusterctlFor(t, r.Components, nil).GenerateProvider(t.Context(), "ingot:"+shippedVersion,
		clusterctlv1.InfrastructureProviderType, client.ComponentsOptions{TargetNamespace: namespace})
	if err != nil {
		return Installation{Namespace: namespace, Err: err.Error()}
	}
	return Installation{Namespace: c.TargetNamespace(), Objects: c.Objs(), Variables: c.Variables()}
}

// generated is "clusterctl generate cluster", with the variables that are needed,
// and without.
func generated(t *testing.T, r *release.Release, flavor, file, content string) Template {
	t.Helper()
	out := Template{File: file, Namespace: demoNamespace}
	variables, err := yamlprocessor.NewSimpleProcessor().GetVariableMap([]byte(content))
	check(t, err)
	for name, value := range variables {
		out.Variables = append(out.Variables, name)
		if value != nil {
			out.Defaulted = append(out.Defaulted, name)
		}
	}
	slices.Sort(out.Variables)
	three := int64(3)
	options := client.GetClusterTemplateOptions{
		ProviderRepositorySource: &client.ProviderRepositorySourceOptions{InfrastructureProvider: "ingot:" + shippedVersion, Flavor: flavor},
		TargetNamespace:          demoNamespace, ClusterName: demoCluster, KubernetesVersion: "v1.36.3",
		ControlPlaneMachineCount: &three, WorkerMachineCount: &three,
	}
	template, err := clusterctlFor(t, r.Components, requiredVariables).GetClusterTemplate(t.Context(), options)
	if err != nil {
		out.Err = err.Error()
		return out
	}
	out.Objects = template.Objs()
	if _, err := clusterctlFor(t, r.Components, nil).GetClusterTemplate(t.Context(), options); err != nil {
		out.Missing = err.Error()
	}
	return out
}
