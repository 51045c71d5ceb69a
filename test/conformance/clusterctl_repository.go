// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilversion "k8s.io/apimachinery/pkg/util/version"
)

const (
	componentsFile  = "infrastructure-components.yaml"
	metadataFile    = "metadata.yaml"
	defaultTemplate = "cluster-template.yaml"
	// ourRepository begins the URLs by which clusterctl would know Ingot by itself.
	ourRepository = "https://github.com/ingot-metal/"
)

var (
	providerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	templateFile = regexp.MustCompile(`^cluster-template(-[a-z0-9]([-a-z0-9]*[a-z0-9])?)?\.yaml$`)
	classFile    = regexp.MustCompile(`^clusterclass-([a-z0-9]([-a-z0-9]*[a-z0-9])?)\.yaml$`)
)

// series is the entry of metadata.yaml for the shipped version; nil if there is none.
func (s *Shipped) series() *Series {
	v, err := utilversion.ParseGeneric(s.Version)
	if err != nil {
		return nil
	}
	for i := range s.Metadata.ReleaseSeries {
		if m := &s.Metadata.ReleaseSeries[i]; m.Major == int(v.Major()) && m.Minor == int(v.Minor()) {
			return m
		}
	}
	return nil
}

// repositoryFiles are the rules of what a repository holds (K01–K04).
func repositoryFiles() []Rule {
	return []Rule{
		{
			ID: "K01", Level: Must, Tag: TagRelease, Text: "there is a provider repository that clusterctl reads",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.Files) > 0, "the repository is empty")
				for _, of := range s.parts() {
					p.unless(of.installed.Err == "", "clusterctl: %s: %s", of.file, of.installed.Err)
					for _, d := range ofKind(of.components, "Deployment") {
						p.unless(one(of.installed.Objects, "Deployment", d.GetName()) != nil, "clusterctl would not create %s", d.GetName())
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.Installed.Err = "no such repository" },
		},
		{
			ID: "K02", Level: Must, Tag: TagRelease, Text: "it holds metadata and components, which are valid YAML",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(s.Files[metadataFile] != "", "there is no %s", metadataFile)
				p.unless(s.anyFile(func(name string) bool { return strings.HasSuffix(name, "-components.yaml") }), "there is no components file")
				for file, err := range s.unreadable() {
					p.add("%s: %w", file, err)
				}
				return p.err()
			},
			Break: func(s *Shipped) { delete(s.Files, metadataFile) },
		},
		{
			ID: "K03", Level: Must, Tag: TagRelease, Text: "it holds cluster templates that clusterctl renders",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.Templates) > 0, "there is no cluster template")
				for flavor, t := range s.Templates {
					p.unless(t.Err == "" && one(t.Objects, "Cluster", demoCluster) != nil, "flavor %q: clusterctl makes no Cluster: %s", flavor, t.Err)
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.editTemplate(func(t *Template) { t.Err = "yaml: line 3" }) },
		},
		{
			ID: "K04", Level: May, Tag: TagRelease, Text: "it holds ClusterClass definitions",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.classes()) > 0, "no file of the repository defines a ClusterClass")
				return p.err()
			},
			Break: func(s *Shipped) {
				for name := range s.classes() {
					s.Files[name] = strings.ReplaceAll(s.Files[name], "kind: ClusterClass\n", "kind: ClusterClasses\n")
				}
			},
		},
	}
}

// repositoryName are the rules of the name (K05–K09).
func repositoryName() []Rule {
	return []Rule{
		{
			ID: "K05", Level: Must, Tag: TagRelease, Text: "the name is lower-case letters, digits and -",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(providerName.MatchString(s.Name), "the provider is named %q", s.Name)
				return p.err()
			},
			Break: func(s *Shipped) { rename(s, "Ingot") },
		},
		{
			ID: "K06", Level: Must, Tag: TagRelease, Text: "it has at most 63 characters",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.Name) <= 63, "the name has %d characters", len(s.Name))
				return p.err()
			},
			Break: func(s *Shipped) { rename(s, strings.Repeat("ingot", 13)) },
		},
		{
			ID: "K07", Level: Must, Tag: TagRelease, Text: "name and type are unique",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.BuiltIn) > 0, "clusterctl's own list is empty")
				for _, other := range s.BuiltIn {
					p.unless(other.Name != s.Name || !slices.Contains(s.types(), other.Type) || strings.HasPrefix(other.URL, ourRepository), "clusterctl knows another %s %s: %s", other.Type, other.Name, other.URL)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.BuiltIn = append(s.BuiltIn, Provider{Name: s.Name, Type: s.Type, URL: "https://github.com/others/ingot/releases/latest/infrastructure-components.yaml"})
			},
		},
		{
			ID: "K08", Level: Must, Tag: TagRelease, Text: "in clusterctl's own list our name begins with our organization",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.BuiltIn) > 0, "clusterctl's own list is empty")
				for _, entry := range s.BuiltIn {
					ours := strings.HasPrefix(entry.URL, ourRepository)
					p.unless(!ours || strings.HasPrefix(entry.Name, "ingot-metal-"), "clusterctl lists us as %s", entry.Name)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.BuiltIn = append(s.BuiltIn, Provider{Name: s.Name, Type: s.Type, URL: ourRepository + "ingot/releases/latest/infrastructure-components.yaml"})
			},
			NotApplicable: notBuiltIn,
		},
		{
			ID: "K09", Level: Must, Tag: TagRelease, Text: "only open source can be in that list: ours is",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(strings.Contains(s.License, "Apache License") && strings.Contains(s.License, "Version 2.0"), "the licence is not the Apache License 2.0")
				return p.err()
			},
			Break:         func(s *Shipped) { s.License = "All rights reserved." },
			NotApplicable: notBuiltIn,
		},
	}
}

// types of the providers of a release, as clusterctl names them.
func (s *Shipped) types() []string {
	return []string{s.Type, "RuntimeExtensionProvider", "AddonProvider"}
}

// notBuiltIn returns why rules of clusterctl's own list do not apply.
func notBuiltIn(s *Shipped) string {
	for _, entry := range s.BuiltIn {
		if strings.HasPrefix(entry.URL, ourRepository) {
			return ""
		}
	}
	return "clusterctl's own list of providers does not name Ingot"
}

// repositoryPlaces are the rules of places and metadata (K10–K14).
func repositoryPlaces() []Rule {
	return []Rule{
		{ID: "K10", Level: Must, Tag: TagDocument, Text: "a GitHub release has a semantic version as tag, and all files as assets", Document: contractBook + "k10-github-releases"},
		{ID: "K11", Level: May, Tag: TagDocument, Text: "clusterctl finds versions by the Go module proxy", Document: contractBook + "k11-finding-versions"},
		{ID: "K12", Level: May, Tag: TagDocument, Text: "a GitLab package can be the repository", Document: contractBook + "k12-gitlab"},
		{
			ID: "K13", Level: Must, Tag: TagRelease, Text: "a local repository is <label>/<semantic version>, each with all files",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(s.Label == "infrastructure-"+s.Name, "the directory is named %q", s.Label)
				_, err := utilversion.ParseSemantic(s.Version)
				p.unless(err == nil && strings.HasPrefix(s.Version, "v"), "the version is %q", s.Version)
				return p.err()
			},
			Break: func(s *Shipped) { s.Version = strings.TrimSuffix(s.Version, ".0") },
		},
		{
			ID: "K14", Level: Must, Tag: TagRelease, Text: "metadata.yaml is valid and knows the release series, with a contract that clusterctl accepts",
			Check: validMetadata,
			Break: func(s *Shipped) { s.Metadata.APIVersion = "clusterctl.cluster.x-k8s.io/v1alpha4" },
		},
	}
}

func validMetadata(s *Shipped) error {
	var p problems
	p.unless(s.Metadata.APIVersion == "clusterctl.cluster.x-k8s.io/v1alpha3" && s.Metadata.Kind == "Metadata", "it is a %s of %s", s.Metadata.Kind, s.Metadata.APIVersion)
	series := s.series()
	p.unless(series != nil, "it has no series for %s", s.Version)
	for _, of := range s.parts() {
		p.unless(of.files[metadataFile] == s.Files[metadataFile] || s.Files[metadataFile] == "", "that of %s is another", of.label)
	}
	seen := map[[2]int]bool{}
	for _, m := range s.Metadata.ReleaseSeries {
		p.unless(slices.Contains(versions, m.Contract), "series %d.%d has contract %q", m.Major, m.Minor, m.Contract)
		p.unless(!seen[[2]int{m.Major, m.Minor}], "series %d.%d is there twice", m.Major, m.Minor)
		seen[[2]int{m.Major, m.Minor}] = true
	}
	return p.err()
}

// rename gives the provider another name everywhere.
func rename(s *Shipped, name string) {
	s.Name, s.Label = name, "infrastructure-"+name
	for label, lists := range map[string][][]unstructured.Unstructured{
		s.Label:                     {s.Components, s.Installed.Objects, s.Elsewhere.Objects},
		"runtime-extension-" + name: {s.Runtime.Components, s.Runtime.Installed.Objects, s.Runtime.Elsewhere.Objects},
		"addon-" + name:             {s.Boot.Components, s.Boot.Installed.Objects, s.Boot.Elsewhere.Objects},
	} {
		for _, objects := range lists {
			for i := range objects {
				if labels := objects[i].GetLabels(); labels[providerLabel] != "" {
					labels[providerLabel] = label
					objects[i].SetLabels(labels)
				}
			}
		}
	}
	for _, plural := range []string{machines, machineTemplates} {
		names := &s.definition(plural).Spec.Names
		names.Kind = strings.Replace(names.Kind, "Ingot", name, 1)
		names.ListKind = strings.Replace(names.ListKind, "Ingot", name, 1)
	}
}

func (s *Shipped) anyFile(is func(name string) bool) bool {
	for name := range s.Files {
		if is(name) {
			return true
		}
	}
	return false
}

// classes are the ClusterClasses by the file that defines them.
func (s *Shipped) classes() map[string]string {
	out := map[string]string{}
	for name, text := range s.Files {
		if strings.HasSuffix(name, "-components.yaml") || !strings.Contains(text, "\nkind: ClusterClass\n") {
			continue
		}
		for _, o := range ofKind(s.objects(name), "ClusterClass") {
			out[name] = o.GetName()
		}
	}
	return out
}

// editTemplate changes the default template.
func (s *Shipped) editTemplate(edit func(*Template)) {
	t := s.Templates[""]
	edit(&t)
	s.Templates[""] = t
}
