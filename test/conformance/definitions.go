// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/cluster-api/util/contract"
)

const (
	contractLabel  = "cluster.x-k8s.io/"
	skipNameCheck  = "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check"
	contractBook   = "docs/book/develop/contract.md#"
	aggregateLabel = "cluster.x-k8s.io/aggregate-to-manager"
)

// established checks that the API server serves a resource in both versions.
func established(s *Shipped, plural string) error {
	var p problems
	d := s.definition(plural)
	ok := slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	p.unless(ok, "the API server has not established %s", plural)
	for _, v := range versions {
		served := version(d, v)
		p.unless(served != nil && served.Served, "%s is not served in %s", plural, v)
	}
	return p.err()
}

func breakEstablished(s *Shipped, plural string) {
	d := s.definition(plural)
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == apiextensionsv1.Established {
			d.Status.Conditions[i].Status = apiextensionsv1.ConditionFalse
		}
	}
}

// contractLabels checks that the definitions say which version keeps which
// contract, for both contracts.
func contractLabels(s *Shipped, plurals []string) error {
	var p problems
	for _, plural := range plurals {
		labels := s.shippedDefinition(plural).GetLabels()
		for _, c := range versions {
			p.unless(labels[contractLabel+c] != "", "%s has no label %s%s", plural, contractLabel, c)
		}
	}
	return p.err()
}

// labelledVersions checks that every version in a contract label is there and
// served: the controllers take the highest of them.
func labelledVersions(s *Shipped, plurals []string) error {
	var p problems
	for _, plural := range plurals {
		d := definitionOf(s.shippedDefinition(plural))
		for label, versions := range d.Labels {
			if !strings.HasPrefix(label, contractLabel+"v") {
				continue
			}
			listed := strings.Split(versions, "_")
			slices.SortFunc(listed, apiversion.CompareKubeAwareVersionStrings)
			for _, name := range listed {
				v := version(d, name)
				p.unless(v != nil && v.Served, "%s: label %s names version %q, which is not served", plural, label, name)
			}
			highest := version(d, listed[len(listed)-1])
			p.unless(highest != nil && strings.TrimPrefix(label, contractLabel) == highest.Name,
				"%s: of label %s the controllers pick %s, which does not keep that contract", plural, label, listed[len(listed)-1])
		}
	}
	return p.err()
}

// newestContract is the newest contract that the labels of a definition name.
func newestContract(o *unstructured.Unstructured) string {
	newest := ""
	for label := range o.GetLabels() {
		c, ok := strings.CutPrefix(label, contractLabel+"v")
		if ok && (newest == "" || apiversion.CompareKubeAwareVersionStrings("v"+c, newest) > 0) {
			newest = "v" + c
		}
	}
	return newest
}

// definitionName checks the name of a definition as clusterctl does before it
// installs.
func definitionName(s *Shipped, plurals []string) error {
	var p problems
	for _, plural := range plurals {
		d := definitionOf(s.shippedDefinition(plural))
		want := contract.CalculateCRDName(d.Spec.Group, d.Spec.Names.Kind)
		_, skipped := d.Annotations[skipNameCheck]
		p.unless(skipped || (d.Name != "" && d.Name == want), "the definition of %s is named %q, not %q", plural, d.Name, want)
	}
	return p.err()
}

// foreignGroup checks that core may work with kinds of a group that is not the
// common one: it can by itself only with those of the common group.
func foreignGroup(s *Shipped, plurals, templateVerbs []string) error {
	var p problems
	for _, plural := range plurals {
		g := text(s.shippedDefinition(plural), "spec", "group")
		p.unless(g != "", "%s has no API group", plural)
		if g == group || g == "" {
			continue
		}
		verbs := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
		if strings.HasSuffix(plural, "templates") {
			verbs = templateVerbs
		}
		granted := grants(aggregated(s.Components), g, plural)
		for _, verb := range verbs {
			p.unless(granted[verb], "no aggregated ClusterRole lets core %s %s.%s", verb, plural, g)
		}
	}
	return p.err()
}

// inCommonGroup returns why rules of a foreign group do not apply to a kind.
func inCommonGroup(plural string) func(*Shipped) string {
	return func(s *Shipped) string {
		if text(s.shippedDefinition(plural), "spec", "group") != group {
			return ""
		}
		return "Ingot's kinds are in the common group " + group + ", on which core has all rights"
	}
}

// moveGroup puts a kind into another API group, and into nothing else.
func moveGroup(s *Shipped, plural string) {
	o := s.shippedDefinition(plural)
	set(o, "infrastructure.ingot.example", "spec", "group")
	o.SetName(plural + ".infrastructure.ingot.example")
}

func aggregated(objects []unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(ofKind(objects, "ClusterRole"), func(o *unstructured.Unstructured) bool {
		return o.GetLabels()[aggregateLabel] != "true"
	})
}

// grants are the verbs that roles give processes on a resource of a group.
func grants(roles []*unstructured.Unstructured, group, resource string) map[string]bool {
	verbs := map[string]bool{}
	for _, role := range roles {
		if isForPeople(role) {
			continue
		}
		for _, rule := range list(role, "rules") {
			r := tree(rule)
			if has(list(r, "apiGroups"), group) && has(list(r, "resources"), resource) {
				for _, verb := range list(r, "verbs") {
					verbs[verb.(string)] = true
				}
			}
		}
	}
	return verbs
}

// isForPeople reports whether people are bound to a role, which then says whether it is a
// part of the roles that Kubernetes has for them. Such a role gives no process a right.
func isForPeople(role *unstructured.Unstructured) bool {
	labels := role.GetLabels()
	_, view := labels["rbac.authorization.k8s.io/aggregate-to-view"]
	_, admin := labels["rbac.authorization.k8s.io/aggregate-to-admin"]
	return view || admin
}

func has(list []any, s string) bool {
	return slices.ContainsFunc(list, func(v any) bool { return v == s || v == "*" })
}

// markers checks how a kind is declared: in namespaces, in the category of Cluster
// API, with one storage version, and with a status of its own where asked.
func markers(s *Shipped, plural string, short, status bool) error {
	var p problems
	d := definitionOf(s.shippedDefinition(plural))
	p.unless(d.Spec.Scope == apiextensionsv1.NamespaceScoped, "%s is declared as %s", plural, d.Spec.Scope)
	p.unless(slices.Contains(d.Spec.Names.Categories, "cluster-api"), "%s is not in the category cluster-api", plural)
	p.unless(!short || len(d.Spec.Names.ShortNames) > 0, "%s has no short name", plural)
	storage := 0
	for _, v := range d.Spec.Versions {
		if v.Storage {
			storage++
		}
		p.unless(!status || (v.Subresources != nil && v.Subresources.Status != nil), "%s %s has no status subresource", v.Name, plural)
	}
	p.unless(storage == 1, "%s has %d storage versions", plural, storage)
	return p.err()
}

// template checks that a kind is the template of another: its name, and
// spec.template with metadata and spec.
func templateShape(s *Shipped, plural string) error {
	var p problems
	for _, v := range versions {
		for _, field := range []string{"labels", "annotations"} {
			p.unless(isType(s.schema(plural, v, "spec.template.metadata."+field), "object"), "%s %s has no spec.template.metadata.%s", v, plural, field)
		}
		p.unless(isType(s.schema(plural, v, "spec.template.spec"), "object"), "%s %s has no spec.template.spec", v, plural)
	}
	return p.err()
}
