// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ingot-metal/ingot/hack/tools"
)

// A mutant is the product with one rule broken: an edit of a file that the release is made
// of. The rule must find it.
type mutant struct {
	rule string
	// file below the top of the source tree, or a pattern of several; old occurs in each, and
	// each occurrence becomes new. An empty old makes a file of its own.
	file, old, new string
}

// product is what the release is made of.
var product = []string{"config", "templates", "docs/book", "metadata.yaml", "LICENSE"}

const (
	bases     = "config/crd/bases/infrastructure.cluster.x-k8s.io_"
	extension = "config/runtime-extension/"
)

// TestProductMutants demands that the rule of each mutant fails on the release of the
// mutant, and that every rule of manifests, types or definitions has a mutant.
func TestProductMutants(t *testing.T) {
	if os.Getenv("INGOT_MUTANTS") != "release" {
		t.Skip("make conformance-mutants")
	}
	set, err := tools.Open()
	check(t, err)
	whole := offline(t, set.Root(), nil, "")
	rules := map[string]Rule{}
	for _, rule := range Rules() {
		rules[rule.ID] = rule
		if rule.Check != nil && ofProduct(rule) {
			if err := rule.Check(whole); err != nil {
				t.Errorf("%s does not hold for the product itself: %v", rule.ID, err)
			}
		}
	}
	found, has := 0, map[string]bool{}
	for i, m := range mutants {
		has[m.rule] = true
		// A name twice would end in #01, and be a fragment of the repository's URL.
		t.Run(fmt.Sprint(m.rule, " ", i, " ", filepath.Base(m.file)), func(t *testing.T) {
			root := t.TempDir()
			for _, part := range product {
				copyTree(t, filepath.Join(set.Root(), part), filepath.Join(root, part))
			}
			m.apply(t, root)
			broken := offline(t, root, whole, m.file)
			if err := rules[m.rule].Check(broken); err == nil {
				t.Errorf("%s holds though %s has %q instead of %q", m.rule, m.file, m.new, m.old)
				return
			}
			for _, of := range broken.parts() {
				if of.installed.Err != "" && !slices.Contains(refusedByClusterctl, m.rule) {
					t.Errorf("clusterctl refuses %s, so that the rule has nothing to look at: %s", of.file, of.installed.Err)
					return
				}
			}
			found++
		})
	}
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		if _, without := withoutMutant[id]; ofProduct(rules[id]) && !has[id] && !without {
			t.Errorf("%s has no mutant of the product", id)
		}
	}
	fmt.Printf("mutants: %d of %d found\n", found, len(mutants))
}

// ofProduct reports whether a rule is checked on manifests, types or definitions.
func ofProduct(rule Rule) bool {
	return rule.Check != nil && slices.Contains([]Tag{TagType, TagRelease, TagTypeRun, TagShipRun}, rule.Tag)
}

func (m mutant) apply(t *testing.T, root string) {
	t.Helper()
	if m.old == "" {
		check(t, os.WriteFile(filepath.Join(root, m.file), []byte(m.new), 0o600))
		return
	}
	paths, err := filepath.Glob(filepath.Join(root, m.file))
	check(t, err)
	if len(paths) == 0 {
		t.Fatalf("there is no %s: the mutant is stale", m.file)
	}
	for _, path := range paths {
		text := read(t, path)
		if !strings.Contains(text, m.old) {
			t.Fatalf("%s has no %q: the mutant is stale", path, m.old)
		}
		check(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, m.old, m.new)), 0o600))
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	check(t, err)
	if !info.IsDir() {
		data, err := os.ReadFile(from)
		check(t, err)
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.WriteFile(to, data, 0o600))
		return
	}
	check(t, os.CopyFS(to, os.DirFS(from)))
}

// offline is a release as files and by clusterctl, with the definitions as an API server
// would report them that has established all.
func offline(t *testing.T, root string, whole *Shipped, file string) *Shipped {
	t.Helper()
	s := shipFiles(t, root, whole, file)
	s.Resources = map[string][]metav1.APIResource{}
	for _, o := range ofKind(s.Components, "CustomResourceDefinition") {
		d := apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		s.Definitions = append(s.Definitions, d)
		for _, v := range d.Spec.Versions {
			if v.Served {
				s.Resources[v.Name] = append(s.Resources[v.Name], metav1.APIResource{Name: d.Spec.Names.Plural, Kind: d.Spec.Names.Kind, Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped})
			}
		}
	}
	return s
}
