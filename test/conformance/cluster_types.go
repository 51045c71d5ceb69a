// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// clusterDefinition are the rules of its definition (C01–C05b).
func clusterDefinition() []Rule {
	return []Rule{
		{
			ID: "C01", Level: Must, Tag: TagType, Text: "the API server serves an InfraCluster",
			Check: func(s *Shipped) error {
				var p problems
				for _, v := range versions {
					p.unless(s.resource(clusters, v) != nil, "%s is not served in %s", clusters, v)
				}
				return p.err()
			},
			Break: func(s *Shipped) {
				for i := range s.Resources[v1beta2] {
					if s.Resources[v1beta2][i].Name == clusters {
						s.Resources[v1beta2][i].Name = "clusters"
					}
				}
			},
		},
		{
			ID: "C02", Level: Must, Tag: TagType, Text: "it is a custom resource definition",
			Check: func(s *Shipped) error { return established(s, clusters) },
			Break: func(s *Shipped) { breakEstablished(s, clusters) },
		},
		{
			ID: "C03", Level: Must, Tag: TagRelease, Text: "the definition is named as Cluster API computes it",
			Check: func(s *Shipped) error { return definitionName(s, []string{clusters}) },
			Break: func(s *Shipped) { s.shippedDefinition(clusters).SetName("ingotcluster." + group) },
		},
		{
			ID: "C04", Level: Must, Tag: TagRelease, Text: "it lives in namespaces",
			Check: func(s *Shipped) error {
				var p problems
				for _, plural := range clusterKinds {
					scope := text(s.shippedDefinition(plural), "spec", "scope")
					p.unless(scope == "Namespaced", "%s has scope %q", plural, scope)
				}
				return p.err()
			},
			Break: func(s *Shipped) { set(s.shippedDefinition(clusters), "Cluster", "spec", "scope") },
		},
		{
			ID: "C05", Level: Must, Tag: TagType, Text: "it has TypeMeta and ObjectMeta",
			Check: func(s *Shipped) error { return metadataFields(s, clusterKinds) },
			Break: func(s *Shipped) { s.change(clusters, v1beta1, "metadata", ofType("string")) },
		},
		{
			ID: "C05b", Level: Must, Tag: TagRelease, Text: "the definitions carry a label for each contract, with versions that are served",
			Check: func(s *Shipped) error {
				if err := contractLabels(s, clusterKinds); err != nil {
					return err
				}
				return labelledVersions(s, clusterKinds)
			},
			Break: func(s *Shipped) { dropLabel(s, clusterTemplates, contractLabel+v1beta1) },
		},
	}
}

// clusterFields are the rules of its fields (C06–C09).
func clusterFields() []Rule {
	return []Rule{
		{
			ID: "C06", Level: Must, Tag: TagTypeRun, Text: "spec.controlPlaneEndpoint has host and port; without one the cluster waits",
			Check: endpointField,
			Break: func(s *Shipped) {
				s.change(clusters, v1beta2, "spec.controlPlaneEndpoint.port", func(p *apiextensionsv1.JSONSchemaProps) { p.Maximum = nil })
			},
			Live: endpointFirst, BreakRun: forgetEndpoint,
		},
		{
			ID: "C07", Level: Must, Tag: TagTypeRun, Text: "status.ready and status.initialization.provisioned tell that all is there",
			Check: func(s *Shipped) error { return provisionedFields(s, clusters) },
			Break: func(s *Shipped) { s.change(clusters, v1beta1, "status", without("ready")) },
			Live:  readyIsProvisioned(kindCluster), BreakRun: unready(kindCluster),
		},
		{
			ID: "C08", Level: May, Tag: TagTypeRun, Text: "failureReason and failureMessage are there for what is terminal, and for nothing else",
			Check: func(s *Shipped) error { return failureFields(s, clusters) },
			Break: func(s *Shipped) { s.change(clusters, v1beta1, "status", without("failureReason")) },
			Live: func(r *Run) error {
				var p problems
				seen := 0
				for _, k := range r.keys(kindCluster) {
					if v := r.last(k); provisioned(&v.Object) {
						seen++
						p.unless(failure(&v.Object, failedPermanently) == "" && failure(&v.Object, "failureMessage") == "", "%s: is provisioned, and says that it failed", k)
					}
				}
				p.unless(seen > 0, "no cluster is provisioned")
				return p.err()
			},
			BreakRun: func(r *Run) {
				var p problems
				set(r.lastProvisioned(kindCluster, &p)[0], "CreateError", "status", "deprecated", "v1beta1", failedPermanently)
			},
		},
		{
			ID: "C09", Level: May, Tag: TagTypeRun, Text: "failure domains are a map in v1beta1, a list keyed by name in v1beta2",
			Check: failureDomainFields,
			Break: func(s *Shipped) {
				s.change(clusters, v1beta2, "status.failureDomains", func(p *apiextensionsv1.JSONSchemaProps) { p.XListMapKeys = nil })
			},
			Live: failureDomainsAgree,
			BreakRun: func(r *Run) {
				for i := range r.Legacy {
					if m, _ := value(&r.Legacy[i], "status", "failureDomains").(map[string]any); r.Legacy[i].GetKind() == kindCluster && len(m) > 0 {
						m["nowhere"] = map[string]any{"controlPlane": true}
					}
				}
			},
		},
	}
}

// clusterTemplateType are the rules of template and lists (C10–C12).
func clusterTemplateType() []Rule {
	return []Rule{
		{
			ID: "C10", Level: Should, Tag: TagType, Text: "there is an InfraClusterTemplate with spec.template",
			Check: func(s *Shipped) error {
				p := problems{}
				want := s.definition(clusters).Spec.Names.Kind + "Template"
				p.unless(s.definition(clusterTemplates).Spec.Names.Kind == want, "there is no %s", want)
				if err := templateShape(s, clusterTemplates); err != nil {
					p = append(p, err)
				}
				if err := markers(s, clusterTemplates, false, false); err != nil && text(s.shippedDefinition(clusterTemplates), "spec", "scope") == "Namespaced" {
					p = append(p, err)
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.change(clusterTemplates, v1beta1, "spec.template", without("spec")) },
		},
		{
			ID: "C11", Level: Must, Tag: TagRelease, Text: "the template's definition is named by the same rule",
			Check: func(s *Shipped) error { return definitionName(s, []string{clusterTemplates}) },
			Break: func(s *Shipped) { s.shippedDefinition(clusterTemplates).SetName("ingotclustertemplate." + group) },
		},
		{
			ID: "C12", Level: Must, Tag: TagType, Text: "there are lists of both",
			Check: func(s *Shipped) error {
				p := problems{}
				for _, plural := range clusterKinds {
					if err := listType(s, plural); err != nil {
						p = append(p, err)
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) { breakList(s, clusterTemplates) },
		},
	}
}

// endpointField checks the schema of the endpoint in both versions.
func endpointField(s *Shipped) error {
	var p problems
	for _, v := range versions {
		p.unless(bounds(s.schema(clusters, v, "spec.controlPlaneEndpoint.host"), 1, 512), "%s: the host is not a string of 1 to 512", v)
		port := s.schema(clusters, v, "spec.controlPlaneEndpoint.port")
		p.unless(isType(port, "integer") && port.Format == "int32", "%s: the port is no int32", v)
		p.unless(port != nil && port.Minimum != nil && *port.Minimum == 1 && port.Maximum != nil && *port.Maximum == 65535, "%s: the port is not bounded", v)
		for _, field := range []string{"host", "port"} {
			p.unless(s.optional(clusters, v, "spec.controlPlaneEndpoint", field), "%s: the endpoint's %s is required", v, field)
		}
		p.unless(s.optional(clusters, v, "spec", "controlPlaneEndpoint"), "%s: the endpoint is required", v)
	}
	endpoint := s.schema(clusters, v1beta2, "spec.controlPlaneEndpoint")
	p.unless(endpoint != nil && endpoint.MinProperties != nil && *endpoint.MinProperties == 1, "v1beta2: the endpoint may be empty")
	return p.err()
}

// endpointOf is the endpoint that core goes by when an IngotCluster is as it is.
func endpointOf(r *Run, v *Version) string {
	for _, o := range []*unstructured.Unstructured{&v.Object, r.at(Key{coreCluster, v.Object.GetNamespace(), owner(&v.Object, coreCluster)}, v.Revision)} {
		if o != nil && text(o, "spec", "controlPlaneEndpoint", "host") != "" {
			return fmt.Sprint(text(o, "spec", "controlPlaneEndpoint", "host"), ":", value(o, "spec", "controlPlaneEndpoint", "port"))
		}
	}
	return ""
}

// endpointFirst checks that no cluster is provisioned before it has an endpoint,
// and that core takes the one it has.
func endpointFirst(r *Run) error {
	var p problems
	endpointsServed(r, &p)
	for _, k := range r.keys(kindCluster) {
		for _, v := range r.history(k) {
			_, external := v.Object.GetAnnotations()[managedBy]
			p.unless(external || !provisioned(&v.Object) || endpointOf(r, v) != "", "%s: is provisioned without an endpoint at revision %d", k, v.Revision)
		}
	}
	for _, o := range r.lastProvisioned(kindCluster, &p) {
		host := text(o, "spec", "controlPlaneEndpoint", "host")
		c := r.last(Key{coreCluster, o.GetNamespace(), owner(o, coreCluster)})
		if host == "" || c == nil || c.Deleted {
			continue
		}
		p.unless(text(&c.Object, "spec", "controlPlaneEndpoint", "host") == host, "%s: its Cluster has another endpoint", keyOf(o))
	}
	return p.err()
}

// forgetEndpoint makes core go by another endpoint than the cluster's.
func forgetEndpoint(r *Run) {
	var p problems
	o := r.lastProvisioned(kindCluster, &p)[0]
	c := r.last(Key{coreCluster, o.GetNamespace(), owner(o, coreCluster)})
	set(&c.Object, "192.0.2.99", "spec", "controlPlaneEndpoint", "host")
}

// failureDomainFields checks the two shapes of failure domains.
func failureDomainFields(s *Shipped) error {
	var p problems
	p.unless(isType(s.schema(clusters, v1beta1, "status.failureDomains"), "object"), "v1beta1: failure domains are no map")
	for at, v := range map[string]string{"status.failureDomains.{}": v1beta1, "status.failureDomains.[]": v1beta2} {
		p.unless(isType(s.schema(clusters, v, at+".controlPlane"), "boolean"), "%s: a failure domain has no controlPlane", v)
		p.unless(isType(s.schema(clusters, v, at+".attributes"), "object"), "%s: a failure domain has no attributes", v)
	}
	domains := s.schema(clusters, v1beta2, "status.failureDomains")
	p.unless(isType(domains, "array"), "v1beta2: failure domains are no list")
	if domains != nil {
		p.unless(domains.XListType != nil && *domains.XListType == "map" && slices.Equal(domains.XListMapKeys, []string{"name"}), "v1beta2: failure domains are not keyed by name")
		p.unless(domains.MaxItems != nil && *domains.MaxItems == 100 && domains.MinItems != nil && *domains.MinItems == 1, "v1beta2: there may be more failure domains than a Cluster takes")
	}
	return p.err()
}

// failureDomainsAgree checks that readers of both contracts see the same domains.
func failureDomainsAgree(r *Run) error {
	var p problems
	seen := 0
	for i := range r.Legacy {
		o := &r.Legacy[i]
		v := r.read(o)
		if o.GetKind() != kindCluster || v == nil {
			continue
		}
		want := map[string]any{}
		for _, d := range list(&v.Object, "status", "failureDomains") {
			name := text(tree(d), "name")
			p.unless(want[name] == nil, "%s: two failure domains are named %s", keyOf(o), name)
			want[name] = domain(d)
			seen++
		}
		got := map[string]any{}
		domains, _ := value(o, "status", "failureDomains").(map[string]any)
		for name, d := range domains {
			got[name] = domain(d)
		}
		p.unless(reflect.DeepEqual(got, want), "%s: a reader of v1beta1 sees the failure domains %v", keyOf(o), got)
	}
	p.unless(seen > 0, "no cluster has a failure domain")
	return p.err()
}

// domain is what a failure domain says, in either form: that it may not have a
// control plane is said by leaving it out in v1beta1.
func domain(d any) map[string]any {
	return map[string]any{"controlPlane": truth(tree(d), "controlPlane"), "attributes": value(tree(d), "attributes")}
}
