// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What clusterctl is asked to generate.
const (
	demoCluster   = "conformance"
	demoNamespace = "elsewhere"
)

// commonVariables are those that clusterctl sets by its flags.
var commonVariables = []string{"CLUSTER_NAME", "CONTROL_PLANE_MACHINE_COUNT", "KUBERNETES_VERSION", "NAMESPACE", "WORKER_MACHINE_COUNT"}

// parse reads the objects of a YAML file. A document that is empty is skipped; one that is
// not YAML, or has no kind, is an error.
func parse(text string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var content map[string]any
		switch err := yaml.Unmarshal([]byte(document), &content); {
		case err != nil:
			return out, fmt.Errorf("document %d: %w", len(out)+1, err)
		case len(content) == 0:
		case content["kind"] == nil:
			return out, fmt.Errorf("document %d has no kind", len(out)+1)
		default:
			out = append(out, unstructured.Unstructured{Object: content})
		}
	}
	return out, nil
}

// placeholder is a variable of a template, without a brace of YAML behind it.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}`)

// parseTemplate is parse for a file with variables, which are YAML only after substitution.
func parseTemplate(text string) ([]unstructured.Unstructured, error) {
	return parse(placeholder.ReplaceAllString(text, "x"))
}

// objects of a file of the repository. A file that cannot be read is a breach of K02.
func (s *Shipped) objects(file string) []unstructured.Unstructured {
	objects, _ := parseTemplate(s.Files[file])
	return objects
}

// unreadable returns what is wrong with the YAML files of all providers, by file.
func (s *Shipped) unreadable() map[string]error {
	out := map[string]error{}
	for _, of := range s.parts() {
		for name, content := range of.files {
			if !strings.HasSuffix(name, ".yaml") {
				continue
			}
			if _, err := parseTemplate(content); err != nil {
				out[of.label+"/"+name] = err
			}
		}
	}
	return out
}

// templateFiles are the rules of files and documents (K29–K31).
func templateFiles() []Rule {
	return []Rule{
		{
			ID: "K29", Level: Must, Tag: TagRelease, Text: "templates are stored beside the components",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(len(s.Templates) > 0, "there are no templates")
				for flavor, t := range s.Templates {
					p.unless(s.Files[t.File] != "", "the file of flavor %q is not beside the components", flavor)
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.editTemplate(func(t *Template) { t.File = "templates/" + t.File }) },
		},
		{
			ID: "K30", Level: Must, Tag: TagRelease, Text: "they are named " + defaultTemplate + " and cluster-template-{flavor}.yaml",
			Check: func(s *Shipped) error {
				var p problems
				p.unless(s.Files[defaultTemplate] != "", "there is no %s", defaultTemplate)
				for name, content := range s.Files {
					if name != componentsFile && strings.Contains(content, "\nkind: Cluster\n") {
						p.unless(templateFile.MatchString(name), "%s holds a Cluster", name)
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.Files["production.yaml"] = s.Files[defaultTemplate] },
		},
		{
			ID: "K31", Level: Should, Tag: TagRelease, Text: "each template is documented",
			Check: func(s *Shipped) error {
				var p problems
				for flavor, t := range s.Templates {
					p.unless(strings.Contains(s.Docs[templatesBook], "`"+path.Base(t.File)+"`"), "%s does not tell of the flavor %q", templatesBook, flavor)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.Docs[templatesBook] = strings.ReplaceAll(s.Docs[templatesBook], "`"+defaultTemplate+"`", "")
			},
		},
	}
}

// templateObjects are the rules of objects and variables (K32–K35).
func templateObjects() []Rule {
	return []Rule{
		{
			ID: "K32", Level: Must, Tag: TagRelease, Text: "they assume that the namespace is there",
			Check: func(s *Shipped) error {
				var p problems
				for flavor, t := range s.Templates {
					p.unless(len(ofKind(t.Objects, "Namespace")) == 0, "flavor %q makes a Namespace", flavor)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.editTemplate(func(t *Template) { t.Objects = append(t.Objects, *object("v1", "Namespace", "", demoNamespace)) })
			},
		},
		{
			ID: "K33", Level: Must, Tag: TagRelease, Text: "all their objects are in one namespace",
			Check: func(s *Shipped) error {
				var p problems
				for flavor, t := range s.Templates {
					for i := range t.Objects {
						o := &t.Objects[i]
						p.unless(o.GetKind() == "Namespace" || (o.GetNamespace() == t.Namespace && t.Namespace != ""), "flavor %q: %s is not in %s", flavor, keyOf(o), t.Namespace)
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.editTemplate(func(t *Template) { t.Objects = append(t.Objects, *object("v1", "ConfigMap", "default", "extra")) })
			},
		},
		{
			ID: "K34", Level: May, Tag: TagRelease, Text: "their variables are UPPER_CASE, documented, and named if they are missing",
			Check: templateVariables,
			Break: func(s *Shipped) {
				s.editTemplate(func(t *Template) {
					t.Variables = append(t.Variables, "INGOT_SOMETHING")
					t.Missing += " INGOT_SOMETHING"
				})
			},
		},
		{
			ID: "K35", Level: Should, Tag: TagRelease, Text: "they use the common variables",
			Check: func(s *Shipped) error {
				var p problems
				for flavor, t := range s.Templates {
					for _, name := range commonVariables {
						p.unless(slices.Contains(t.Variables, name), "flavor %q does not use %s", flavor, name)
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.editTemplate(func(t *Template) {
					t.Variables = slices.DeleteFunc(t.Variables, func(v string) bool { return v == "WORKER_MACHINE_COUNT" })
				})
			},
		},
	}
}

// templateVariables checks the variables of all templates: those without a default
// are named by clusterctl if they are missing.
func templateVariables(s *Shipped) error {
	var p problems
	for flavor, t := range s.Templates {
		p.unless(len(t.Variables) > 0, "flavor %q has no variables", flavor)
		for _, name := range t.Variables {
			p.unless(variable.MatchString(name), "flavor %q: variable %s is not upper case", flavor, name)
			p.unless(strings.Contains(s.Docs[templatesBook], name), "%s does not tell of %s", templatesBook, name)
			needed := !slices.Contains(t.Defaulted, name) && !slices.Contains(commonVariables, name)
			p.unless(!needed || strings.Contains(t.Missing, name), "flavor %q: clusterctl does not say that %s is missing", flavor, name)
		}
	}
	return p.err()
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	o.SetName(name)
	return o
}

// classFileRules are the rules of files and documents (K36–K38).
func classFileRules() []Rule {
	return []Rule{
		{
			ID: "K36", Level: Must, Tag: TagRelease, Text: "a class that a template names is stored beside the components",
			Check: func(s *Shipped) error {
				var p problems
				classes := slices.Collect(maps.Values(s.classes()))
				named := 0
				for flavor, t := range s.Templates {
					// clusterctl makes nothing of a template whose class it does not find.
					for _, c := range append(ofKind(t.Objects, "Cluster"), ofKind(s.objects(t.File), "Cluster")...) {
						if name := className(c); name != "" {
							named++
							p.unless(slices.Contains(classes, name) || len(classes) == 0, "flavor %q names class %q, which no file defines", flavor, name)
						}
					}
				}
				p.unless(named > 0, "no template names a class")
				return p.err()
			},
			Break: func(s *Shipped) {
				for _, t := range s.Templates {
					for _, c := range ofKind(t.Objects, "Cluster") {
						if className(c) != "" {
							set(c, "other", "spec", "topology", "classRef", "name")
						}
					}
				}
			},
		},
		{
			ID: "K37", Level: Must, Tag: TagRelease, Text: "its file is named clusterclass-{name}.yaml",
			Check: func(s *Shipped) error {
				var p problems
				for file, name := range s.classes() {
					p.unless(file == "clusterclass-"+name+".yaml", "%s defines class %s", file, name)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				for file, content := range s.classFiles() {
					delete(s.Files, file)
					s.Files[strings.Replace(file, "clusterclass-", "clusterclass-other-", 1)] = content
				}
			},
		},
		{
			ID: "K38", Level: Should, Tag: TagRelease, Text: "each class is documented",
			Check: func(s *Shipped) error {
				var p problems
				for file := range s.classFiles() {
					for _, o := range ofKind(s.objects(file), "ClusterClass") {
						p.unless(strings.Contains(s.Docs[templatesBook], "`"+o.GetName()+"`"), "%s does not tell of class %s", templatesBook, o.GetName())
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				for file := range s.classFiles() {
					for _, o := range ofKind(s.objects(file), "ClusterClass") {
						s.Docs[templatesBook] = strings.ReplaceAll(s.Docs[templatesBook], "`"+o.GetName()+"`", "")
					}
				}
			},
		},
	}
}

// classObjects are the rules of what is in them (K39–K41).
func classObjects() []Rule {
	return []Rule{
		{
			ID: "K39", Level: Must, Tag: TagRelease, Text: "it assumes that the namespace is there",
			Check: inClasses(func(o *unstructured.Unstructured) error {
				if o.GetKind() == "Namespace" {
					return fmt.Errorf("it makes Namespace %s", o.GetName())
				}
				return nil
			}),
			Break: appendToClass("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: elsewhere\n"),
		},
		{
			ID: "K40", Level: Should, Tag: TagRelease, Text: "its references name no namespace",
			Check: inClasses(referencesNamespace),
			Break: appendToClass("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\nspec:\n  templateRef:\n    name: a\n    namespace: b\n"),
		},
		{
			ID: "K41", Level: Should, Tag: TagRelease, Text: "its objects name no namespace",
			Check: inClasses(func(o *unstructured.Unstructured) error {
				if o.GetNamespace() != "" {
					return fmt.Errorf("%s names one", keyOf(o))
				}
				return nil
			}),
			Break: appendToClass("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n  namespace: default\n"),
		},
	}
}

// classSharing are the rules of sharing, variables and use (K42–K44b).
func classSharing() []Rule {
	return []Rule{
		{
			ID: "K42", Level: Should, Tag: TagRelease, Text: "no object is shared between files of classes",
			Check: func(s *Shipped) error {
				var p problems
				seen := map[Key]string{}
				for _, file := range slices.Sorted(maps.Keys(s.classFiles())) {
					for _, o := range s.objects(file) {
						other := seen[keyOf(&o)]
						p.unless(other == "" || other == file, "%s is in %s and in %s", keyOf(&o), other, file)
						seen[keyOf(&o)] = file
					}
				}
				p.unless(len(seen) > 0, "no file of a class has an object")
				return p.err()
			},
			Break: func(s *Shipped) {
				for _, content := range s.classFiles() {
					templates := slices.DeleteFunc(strings.Split("\n"+content, "\n---"), func(d string) bool { return strings.Contains(d, "kind: ClusterClass\n") })
					s.Files["clusterclass-second.yaml"] = strings.Join(templates, "\n---")
				}
			},
		},
		{
			ID: "K43", Level: Should, Tag: TagRelease, Text: "it has no variables of the environment",
			Check: func(s *Shipped) error {
				var p problems
				for file := range s.classFiles() {
					for _, e := range expression.FindAllString(s.Files[file], -1) {
						p.add("%s: %s", file, e)
					}
				}
				p.unless(len(s.classFiles()) > 0, "there is no file of a class")
				return p.err()
			},
			Break: appendToClass("# ${INGOT_IMAGE}\n"),
		},
		{
			ID: "K44", Level: Must, Tag: TagRelease, Text: "clusterctl generate cluster adds it where it is missing",
			Check: func(s *Shipped) error {
				var p problems
				topologies := 0
				for flavor, t := range s.Templates {
					for _, c := range ofKind(t.Objects, "Cluster") {
						if className(c) != "" {
							topologies++
							p.unless(len(ofKind(t.Objects, "ClusterClass")) == 1, "flavor %q comes without its class", flavor)
						}
					}
				}
				p.unless(topologies > 0, "no template has a topology")
				return p.err()
			},
			Break: func(s *Shipped) {
				for flavor, t := range s.Templates {
					t.Objects = slices.DeleteFunc(t.Objects, func(o unstructured.Unstructured) bool { return o.GetKind() == "ClusterClass" })
					s.Templates[flavor] = t
				}
			},
		},
		{ID: "K44b", Level: May, Tag: TagDocument, Text: "a class can be in another namespace than its clusters", Document: contractBook + "k44b-class-of-another-namespace"},
	}
}

// className is the class of a Cluster; empty if it has no topology.
func className(o *unstructured.Unstructured) string {
	if name := text(o, "spec", "topology", "classRef", "name"); name != "" {
		return name
	}
	return text(o, "spec", "topology", "class")
}

// classFiles are the files for classes, by name, whatever they hold.
func (s *Shipped) classFiles() map[string]string {
	out := map[string]string{}
	for name, content := range s.Files {
		if classFile.MatchString(name) {
			out[name] = content
		}
	}
	return out
}

// inClasses checks every object of the files of classes.
func inClasses(check func(*unstructured.Unstructured) error) func(*Shipped) error {
	return func(s *Shipped) error {
		var p problems
		objects := 0
		for file := range s.classFiles() {
			for _, o := range s.objects(file) {
				objects++
				if err := check(&o); err != nil {
					p.add("%s: %w", file, err)
				}
			}
		}
		p.unless(objects > 0, "no file of a class has an object")
		return p.err()
	}
}

func appendToClass(document string) func(*Shipped) {
	return func(s *Shipped) {
		file := slices.Min(slices.Collect(maps.Keys(s.classFiles()))) // one only: no object is in two (K42)
		s.Files[file] = strings.TrimSuffix(s.Files[file], "\n") + "\n---\n" + document
	}
}

// referencesNamespace finds references with a namespace below spec.
func referencesNamespace(o *unstructured.Unstructured) error {
	var p problems
	walk(value(o, "spec"), "", func(path string, v any) {
		last := path[strings.LastIndex(path, ".")+1:]
		ref, _ := v.(map[string]any)
		if (strings.HasSuffix(strings.ToLower(last), "ref")) && ref["namespace"] != nil {
			p.add("%s: %s names namespace %v", keyOf(o), path, ref["namespace"])
		}
	})
	return p.err()
}
