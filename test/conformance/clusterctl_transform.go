// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// transformationRules are the rules of what clusterctl does to the files (K45–K47).
func transformationRules() []Rule {
	return []Rule{
		{ID: "K45", Level: Must, Tag: TagReconcile, Text: "every object of Ingot's is owned, at some remove, by a Cluster, or belongs to the inventory, which moves by itself", Live: chained, BreakRun: breakChain, Exempt: ownerless},
		{
			ID: "K46", Level: Must, Tag: TagRelease, Text: "clusterctl's changes reach everything: namespace, labels, references to Services",
			Check: ofEachPart(transformed),
			Break: func(s *Shipped) {
				w := ofKind(s.Elsewhere.Objects, "ValidatingWebhookConfiguration")[0]
				set(tree(list(w, "webhooks")[0]), s.Installed.Namespace, "clientConfig", "service", "namespace")
			},
		},
		{
			ID: "K47", Level: Must, Tag: TagRelease, Text: "components and templates hold all that they refer to",
			Check: selfContained,
			Break: func(s *Shipped) {
				s.Components = slices.DeleteFunc(s.Components, func(o unstructured.Unstructured) bool { return o.GetKind() == "Issuer" })
			},
		},
	}
}

// transformed compares the installation into another namespace with the default
// one: every mention of the namespace has to follow.
func transformed(_ *Shipped, of part) error {
	var p problems
	p.unless(of.elsewhere.Err == "" && of.elsewhere.Namespace != of.installed.Namespace, "clusterctl made no second installation: %s", of.elsewhere.Err)
	p.unless(len(of.elsewhere.Objects) == len(of.installed.Objects) && len(of.installed.Objects) > 0, "it has %d objects, and the first %d", len(of.elsewhere.Objects), len(of.installed.Objects))
	for i := range of.elsewhere.Objects {
		o := &of.elsewhere.Objects[i]
		_, labelled := o.GetLabels()[clusterctlLabel]
		p.unless(labelled && o.GetLabels()[providerLabel] == of.label, "%s is not labelled by clusterctl", keyOf(o))
		walk(withoutSchemas(o).Object, "", func(path string, v any) {
			leaf, _ := v.(string)
			p.unless(!mentions(leaf, of.installed.Namespace), "%s: %s still says %q", keyOf(o), path, leaf)
		})
	}
	return p.err()
}

// mentions says whether a value names a namespace, alone or as a part of a name.
func mentions(leaf, namespace string) bool {
	return leaf == namespace || strings.HasPrefix(leaf, namespace+"/") || strings.Contains(leaf, "."+namespace+".") || strings.HasPrefix(leaf, "--") && strings.Contains(leaf, "="+namespace+"/")
}

// reference is a mention of an object: the kind, the path in an object of some
// kind, and how to read a name there.
type reference struct {
	from []string
	path string
	to   string
}

// references that the components make to each other.
var references = []reference{
	{[]string{"Deployment"}, "spec.template.spec.serviceAccountName", "ServiceAccount"},
	{[]string{"ClusterRoleBinding"}, "roleRef.name", "ClusterRole"},
	{[]string{"RoleBinding"}, "roleRef.name", "Role"},
	{[]string{"ClusterRoleBinding", "RoleBinding"}, "subjects.name", "ServiceAccount"},
	{[]string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}, "webhooks.clientConfig.service.name", "Service"},
	{[]string{"CustomResourceDefinition"}, "spec.conversion.webhook.clientConfig.service.name", "Service"},
	{[]string{"Certificate"}, "spec.issuerRef.name", "Issuer"},
}

// selfContained checks the references of the components, and those of templates to
// infrastructure and bootstrap templates.
func selfContained(s *Shipped) error {
	var p problems
	for _, of := range s.parts() {
		found := 0
		for _, ref := range references {
			for _, o := range ofKind(of.components, ref.from...) {
				walk(o.Object, "", func(path string, v any) {
					name, ok := v.(string)
					if !ok || path != ref.path || strings.HasPrefix(name, "system:") {
						return
					}
					found++
					p.unless(one(of.components, ref.to, name) != nil, "%s: %s refers to %s %s, which is not there", of.file, keyOf(o), ref.to, name)
				})
			}
		}
		p.unless(found > 0, "%s refers to nothing", of.file)
	}
	for flavor, t := range s.Templates {
		for i := range t.Objects {
			o := &t.Objects[i]
			walk(value(o, "spec"), "", func(path string, v any) {
				ref, _ := v.(map[string]any)
				kind, _ := ref["kind"].(string)
				name, _ := ref["name"].(string)
				last := path[strings.LastIndex(path, ".")+1:]
				if kind == "" || name == "" || !strings.HasSuffix(strings.ToLower(last), "ref") {
					return
				}
				p.unless(one(t.Objects, kind, name) != nil, "flavor %q: %s refers to %s %s, which is not there", flavor, keyOf(o), kind, name)
			})
		}
	}
	return p.err()
}

// chained follows the owners of each object up to a Cluster.
func chained(r *Run) error {
	var p problems
	for _, kind := range r.kindsBut(&p, ownerless) {
		seen := 0
		for _, k := range r.keys(kind) {
			v := r.last(k)
			alone := slices.ContainsFunc([]string{Unowned, UnownedCluster, NoCluster, ForeignNamespace, ForeignFilter}, func(name string) bool {
				return slices.Contains(r.Situations[name].Objects, k)
			})
			if v.Deleted || alone {
				continue
			}
			seen++
			p.unless(r.reachesCluster(k, 0), "%s: no Cluster owns it", k)
		}
		p.unless(seen > 0, "no %s is there at the end of the run", kind)
	}
	return p.err()
}

// reachesCluster follows owner references; a chain longer than ten is a circle.
func (r *Run) reachesCluster(k Key, depth int) bool {
	v := r.last(k)
	if v == nil || depth > 10 {
		return false
	}
	for _, ref := range v.Object.GetOwnerReferences() {
		if ref.Kind == coreCluster || ref.Kind == "ClusterClass" || r.reachesCluster(Key{ref.Kind, k.Namespace, ref.Name}, depth+1) {
			return true
		}
	}
	return false
}

func breakChain(r *Run) {
	for _, k := range r.keys(kindTemplate) {
		if v := r.last(k); !v.Deleted {
			r.edit(k, always, func(o *unstructured.Unstructured) { unset(o, "metadata", "ownerReferences") })
		}
	}
}
