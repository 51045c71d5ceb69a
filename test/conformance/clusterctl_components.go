// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// image is a full reference: registry, path, and a tag or digest that is a version.
var image = regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+(:[0-9]+)?/[a-z0-9._/-]+(:v[0-9]+\.[0-9]+\.[0-9]+[a-zA-Z0-9.-]*|@sha256:[0-9a-f]{64})$`)

// clusterScoped are the kinds of the components that live in no namespace.
var clusterScoped = []string{
	"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"ExtensionConfig",
}

// componentFile are the rules of the file and where its objects are (K15–K18).
func componentFile() []Rule {
	return []Rule{
		{
			ID: "K15", Level: Must, Tag: TagRelease, Text: "one file has all of it: definitions, processes, roles",
			Check: ofEachPart(completeComponents),
			Break: func(s *Shipped) {
				s.Components = slices.DeleteFunc(s.Components, func(o unstructured.Unstructured) bool { return o.GetKind() == "ClusterRoleBinding" })
			},
		},
		{
			ID: "K16", Level: Should, Tag: TagRelease, Text: "it is named " + componentsFile + ", those of the further providers " + runtimeComponentsFile + " and " + bootComponentsFile,
			Check: func(s *Shipped) error {
				var p problems
				for _, of := range s.parts() {
					any := false
					for name := range of.files {
						if strings.HasSuffix(name, "-components.yaml") {
							any = true
							p.unless(name == of.file, "there is a %s", name)
						}
					}
					p.unless(of.files[of.file] != "" || !any, "there is no %s", of.file)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				s.Files["ingot-components.yaml"] = s.Files[componentsFile]
				delete(s.Files, componentsFile)
			},
		},
		{
			ID: "K17", Level: Must, Tag: TagRelease, Text: "it has one Namespace",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				n := len(ofKind(of.components, "Namespace"))
				p.unless(n == 1, "it has %d", n)
				return p.err()
			}),
			Break: func(s *Shipped) { add(s, "v1", "Namespace", "", "another") },
		},
		{
			ID: "K18", Level: Must, Tag: TagRelease, Text: "all namespaced objects are in it",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				if ns := of.namespace(); ns != "" {
					for i := range of.components {
						o := &of.components[i]
						p.unless(slices.Contains(clusterScoped, o.GetKind()) || o.GetNamespace() == ns, "%s is in namespace %q", keyOf(o), o.GetNamespace())
					}
				}
				return p.err()
			}),
			Break: func(s *Shipped) { add(s, "v1", "ConfigMap", "kube-system", "extra") },
		},
	}
}

// componentProcesses are the rules of its processes and labels (K19–K28).
func componentProcesses() []Rule {
	return []Rule{
		{
			ID: "K19", Level: Must, Tag: TagRelease, Text: "processes run in Deployments",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				p.unless(len(ofKind(of.components, "Deployment")) > 0, "there is no Deployment")
				for _, o := range ofKind(of.components, "DaemonSet", "StatefulSet", "ReplicaSet", "Pod", "Job", "CronJob") {
					p.add("%s is no Deployment", keyOf(o))
				}
				return p.err()
			}),
			Break: func(s *Shipped) { add(s, "apps/v1", "DaemonSet", s.namespace(), "extra") },
		},
		{
			ID: "K20", Level: Must, Tag: TagRelease, Text: "their container is named manager",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				for _, o := range ofKind(of.components, "Deployment") {
					p.unless(container(o, "manager") != nil, "%s has no container manager", o.GetName())
				}
				return p.err()
			}),
			Break: func(s *Shipped) { set(container(ofKind(s.Components, "Deployment")[0], "manager"), "ingot", "name") },
		},
		{
			ID: "K21", Level: Must, Tag: TagRelease, Text: "there is a flag --namespace, and the release watches all namespaces",
			Check: ofEachPart(watchesAll),
			Break: func(s *Shipped) {
				c := tree(list(ofKind(s.Components, "Deployment")[0], "spec", "template", "spec", "containers")[0])
				set(c, append(list(c, "args"), "--namespace=production"), "args")
			},
		},
		{
			ID: "K22", Level: Should, Tag: TagRelease, Text: "images have canonical names, with a version",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				for _, o := range ofKind(of.components, "Deployment") {
					for _, c := range list(o, "spec", "template", "spec", "containers") {
						name := text(tree(c), "image")
						p.unless(image.MatchString(name), "%s runs image %q", o.GetName(), name)
					}
				}
				return p.err()
			}),
			Break: func(s *Shipped) {
				set(tree(list(ofKind(s.Components, "Deployment")[0], "spec", "template", "spec", "containers")[0]), "ingot:latest", "image")
			},
		},
		{
			ID: "K28", Level: Should, Tag: TagRelease, Text: "every object carries the provider's label",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				for i := range of.components {
					o := &of.components[i]
					p.unless(o.GetLabels()[providerLabel] == of.label, "%s has label %q", keyOf(o), o.GetLabels()[providerLabel])
				}
				return p.err()
			}),
			Break: func(s *Shipped) { unset(ofKind(s.Components, "Service")[0], "metadata", "labels") },
		},
	}
}

// namespace of the components.
func (s *Shipped) namespace() string {
	for _, o := range ofKind(s.Components, "Namespace") {
		return o.GetName()
	}
	return ""
}

// add an object to the components that keeps all rules but those of its kind.
func add(s *Shipped, apiVersion, kind, namespace, name string) {
	o := unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{providerLabel: "infrastructure-" + s.Name})
	s.Components = append(s.Components, o)
}

// container of a Deployment by name; nil if there is none.
func container(o *unstructured.Unstructured, name string) *unstructured.Unstructured {
	for _, c := range list(o, "spec", "template", "spec", "containers") {
		if text(tree(c), "name") == name {
			return tree(c)
		}
	}
	return nil
}

// completeComponents checks that definitions of all kinds and processes are there,
// and that each process has an identity with roles.
func completeComponents(s *Shipped, of part) error {
	var p problems
	if of.file == componentsFile {
		for _, plural := range append(append(slices.Clone(machineKinds), clusterKinds...), inventory...) {
			p.unless(s.shippedDefinition(plural).GetName() != "", "there is no definition of %s", plural)
		}
	}
	for _, d := range ofKind(of.components, "Deployment") {
		account := text(d, "spec", "template", "spec", "serviceAccountName")
		p.unless(account != "", "%s has no service account of its own", d.GetName())
		bound := false
		for _, b := range ofKind(of.components, "ClusterRoleBinding") {
			for _, subject := range list(b, "subjects") {
				bound = bound || text(tree(subject), "name") == account
			}
		}
		p.unless(bound, "service account %s of %s has no role", account, d.GetName())
	}
	p.unless(len(ofKind(of.components, "Deployment")) > 0, "there is no process")
	return p.err()
}

// watchesAll checks that the program knows --namespace and that no process of the
// release is told one.
func watchesAll(s *Shipped, of part) error {
	var p problems
	p.unless(slices.Contains(s.Flags, "namespace"), "the program has no flag --namespace")
	for _, d := range ofKind(of.components, "Deployment") {
		for _, c := range list(d, "spec", "template", "spec", "containers") {
			args := list(tree(c), "args")
			for i, arg := range args {
				value, ok := strings.CutPrefix(arg.(string), "--namespace=")
				if arg == "--namespace" && i+1 < len(args) {
					value, ok = args[i+1].(string), true
				}
				p.unless(!ok || value == "", "%s watches namespace %q only", d.GetName(), value)
			}
		}
	}
	return p.err()
}
