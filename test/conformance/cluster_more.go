// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import "slices"

// clusterAccess are the rules of access (C25–C27).
func clusterAccess() []Rule {
	return []Rule{
		{
			ID: "C25", Level: Must, Tag: TagRelease, Text: "Ingot may do with its clusters what it does",
			Check: ownAccess,
			Break: func(s *Shipped) { revoke(s, clusters+"/status", "patch") },
		},
		{
			ID: "C26", Level: Must, Tag: TagRelease, Text: "it may read Clusters, and never change them",
			Check: readsClusters,
			Break: func(s *Shipped) { revoke(s, "clusters", "watch") },
		},
		{
			ID: "C27", Level: Must, Tag: TagRelease, Text: "in a foreign API group, core is granted clusters and templates",
			Check: func(s *Shipped) error {
				return foreignGroup(s, clusterKinds, []string{"get", "list", "patch", "update", "watch"})
			},
			Break:         func(s *Shipped) { moveGroup(s, clusters) },
			NotApplicable: inCommonGroup(clusters),
		},
	}
}

// ownAccess checks the verbs on the own kinds. Those that Ingot never uses are not
// granted: Cluster API makes and deletes these objects, and single objects are read
// from the cache of a watch.
func ownAccess(s *Shipped) error {
	var p problems
	roles := ofKind(s.Components, "ClusterRole")
	for resource, verbs := range map[string][]string{clusters: {"list", "watch", "patch"}, clusters + "/status": {"patch"}} {
		granted := grants(roles, group, resource)
		for _, verb := range verbs {
			p.unless(granted[verb], "no role may %s %s", verb, resource)
		}
	}
	return p.err()
}

func readsClusters(s *Shipped) error {
	var p problems
	for _, verb := range []string{"list", "watch"} {
		p.unless(grants(ofKind(s.Components, "ClusterRole"), "cluster.x-k8s.io", "clusters")[verb], "no role may %s clusters", verb)
	}
	for _, resource := range []string{"clusters", "clusters/status"} {
		for verb := range grants(ofKind(s.Components, "ClusterRole", "Role"), "cluster.x-k8s.io", resource) {
			p.unless(slices.Contains([]string{"get", "list", "watch"}, verb), "a role may %s %s", verb, resource)
		}
	}
	return p.err()
}

// revoke takes a verb on a resource from all roles, and nothing else.
func revoke(s *Shipped, resource, verb string) {
	for _, role := range ofKind(s.Components, "ClusterRole") {
		var rules []any
		for _, r := range list(role, "rules") {
			rule := tree(r)
			if !slices.Contains(list(rule, "resources"), any(resource)) {
				rules = append(rules, r)
				continue
			}
			others := slices.DeleteFunc(slices.Clone(list(rule, "resources")), func(v any) bool { return v == resource })
			if len(others) > 0 {
				rest := rule.DeepCopy()
				set(rest, others, "resources")
				rules = append(rules, rest.Object)
			}
			alone := rule.DeepCopy()
			set(alone, []any{resource}, "resources")
			set(alone, slices.DeleteFunc(slices.Clone(list(rule, "verbs")), func(v any) bool { return v == verb }), "verbs")
			rules = append(rules, alone.Object)
		}
		set(role, rules, "rules")
	}
}

// clusterAdditions are the rules that v1.14 added without a number of their own;
// we number them on (C28–C34).
func clusterAdditions() []Rule {
	return []Rule{
		{
			ID: "C28", Level: Should, Tag: TagReconcile, Text: "Ready is mirrored to the Cluster's InfrastructureReady",
			Live: mirrored(kindCluster, coreCluster), BreakRun: breakMirror(coreCluster),
		},
		{ID: "C29", Level: Should, Tag: TagReconcile, Text: "a paused cluster stands still, and says so", Live: pausedClusters, BreakRun: hidePause(kindCluster)},
		{
			ID: "C30", Level: Should, Tag: TagReconcile, Text: "--namespace limits which clusters are reconciled",
			Live: limited(OwnNamespace, ForeignNamespace, nil, butClusters...), BreakRun: unlimited(kindCluster, ForeignNamespace),
		},
		{
			ID: "C31", Level: Must, Tag: TagReconcile, Text: "--watch-filter limits which clusters are reconciled",
			Live: limited(OwnFilter, ForeignFilter, nil, butClusters...), BreakRun: unlimited(kindCluster, ForeignFilter),
		},
		{ID: "C32", Level: Must, Tag: TagReconcile, Text: "clusterctl generates clusters of it", Live: succeeded("generate cluster"), BreakRun: failing("generate cluster")},
		{ID: "C33", Level: Must, Tag: TagReconcile, Text: "what manages a cluster instead of Ingot fills endpoint and provisioned, and core goes on", Live: othersFillIn, BreakRun: othersDoNot},
		{
			ID: "C34", Level: Must, Tag: TagWebhook, Text: "the topology controller's dry run, and only that, may change a cluster template",
			Check: func(s *Shipped) error {
				var p problems
				s.answered(&p, ClusterTopologyDryRun, true)
				a := s.answered(&p, ChangeClusterTemplate, false)
				p.unless(a.Webhook == clusterTemplateAdmits, "a cluster template's change is refused by %q", a.Webhook)
				return p.err()
			},
			Break: breakAnswer(ChangeClusterTemplate),
		},
	}
}

func pausedClusters(r *Run) error {
	if err := standsStill(nil, butClusters...)(r); err != nil {
		return err
	}
	return saysPaused(nil, butClusters...)(r)
}

// butClusters are all kinds of Ingot's but the infrastructure cluster: M40 to M44 are about
// these.
var butClusters = []string{kindMachine, kindTemplate, kindClusterTemplate, kindHost, kindHardware, kindNetwork, kindImage, kindReservation, kindRemediation, kindRemediationTemplate}

// othersFillIn checks that core accepts an externally managed cluster.
func othersFillIn(r *Run) error {
	var p problems
	s, _ := r.situation(External, &p)
	for _, k := range s.Objects {
		o := &r.last(k).Object
		c := r.last(Key{coreCluster, k.Namespace, owner(o, coreCluster)})
		p.unless(c != nil && truth(&c.Object, "status", "initialization", "infrastructureProvisioned") && text(&c.Object, "spec", "controlPlaneEndpoint", "host") != "",
			"%s: core did not take over what its manager filled in", k)
	}
	return p.err()
}

func othersDoNot(r *Run) {
	k := r.Situations[External].Objects[0]
	c := r.last(Key{coreCluster, k.Namespace, owner(&r.last(k).Object, coreCluster)})
	unset(&c.Object, "spec", "controlPlaneEndpoint")
	// The infrastructure must not have one either, or C06 would miss it in the Cluster.
	unset(&r.last(k).Object, "spec", "controlPlaneEndpoint")
}
