// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"reflect"
	"slices"
)

// clusterFlow are the steps of a normal reconcile (C13–C20).
func clusterFlow() []Rule {
	return []Rule{
		{ID: "C13", Level: Must, Tag: TagReconcile, Text: "an externally managed cluster is left alone", Live: leftToOthers, BreakRun: interfere},
		{ID: "C14", Level: Must, Tag: TagReconcile, Text: "without a Cluster as owner nothing happens", Live: untouched(kindCluster, UnownedCluster), BreakRun: touch(kindCluster, UnownedCluster)},
		{ID: "C15", Level: Must, Tag: TagReconcile, Text: "a finalizer comes before anything else, and after the owner", Live: finalizerFirst(kindCluster, coreCluster), BreakRun: finalizerLate(kindCluster)},
		{ID: "C16", Level: Must, Tag: TagReconcile, Text: "what is missing is told, and ends the flow", Live: missingEndpointTold, BreakRun: hideMissingEndpoint},
		{ID: "C17", Level: Must, Tag: TagReconcile, Text: "Ingot makes no load balancer, so it never writes an endpoint", Live: endpointNotOurs, BreakRun: writeEndpoint},
		{ID: "C18", Level: Must, Tag: TagReconcile, Text: "then it is provisioned permanently, and the Cluster knows", Live: clusterProvisioned, BreakRun: unprovision(kindCluster)},
		{ID: "C19", Level: May, Tag: TagReconcile, Text: "its failure domains are the racks of its hosts, for control planes where a server is left", Live: domainsAreRacks, BreakRun: inventDomain},
		{ID: "C20", Level: Must, Tag: TagReconcile, Text: "changes of clusters are patches", Live: patches("ingotclusters"), BreakRun: replaces("ingotclusters")},
	}
}

// clusterDeletion are the steps of a deletion (C21–C24).
func clusterDeletion() []Rule {
	return []Rule{
		{ID: "C21", Level: Must, Tag: TagReconcile, Text: "deletion of the Cluster deletes its infrastructure", Live: clusterGone, BreakRun: clusterRemains},
		{ID: "C22", Level: Must, Tag: TagReconcile, Text: "while machines remain the finalizer stays", Live: keepsFinalizer(kindCluster, ClusterDeletion), BreakRun: giveUp(kindCluster, ClusterDeletion)},
		{ID: "C23", Level: Must, Tag: TagReconcile, Text: "then the finalizer goes, without an owner too", Live: letsGo(kindCluster, UnownedCluster), BreakRun: stayForEver(kindCluster, UnownedCluster)},
		{ID: "C24", Level: Must, Tag: TagReconcile, Text: "the finalizer goes by a patch", Live: finalizerPatched(kindCluster), BreakRun: losePatches(kindCluster)},
	}
}

// leftToOthers checks that Ingot writes nothing to what others manage: no request,
// no finalizer, no status.
func leftToOthers(r *Run) error {
	var p problems
	s, _ := r.situation(External, &p)
	for _, k := range s.Objects {
		for _, v := range r.history(k) {
			p.unless(!ingotFinalizer(&v.Object), "%s: has Ingot's finalizer at revision %d", k, v.Revision)
		}
		for i := range r.Writes {
			w := &r.Writes[i]
			p.unless(!w.byIngot() || w.Resource != resourceOf(k.Kind) || w.Namespace != k.Namespace || w.Name != k.Name, "%s: Ingot asked for %s %s", k, w.Verb, w.Subresource)
		}
	}
	return p.err()
}

func interfere(r *Run) {
	k := r.Situations[External].Objects[0]
	r.Writes = append(r.Writes, Write{User: ingotUser + "controller-manager", Verb: "patch", Resource: resourceOf(k.Kind), Subresource: "status", Namespace: k.Namespace, Name: k.Name, Code: 200})
}

// missingEndpointTold checks that a cluster without an endpoint says so and is not
// provisioned.
func missingEndpointTold(r *Run) error {
	var p problems
	s, _ := r.situation(NoEndpoint, &p)
	for _, k := range s.Objects {
		o := r.at(k, s.Last)
		p.unless(o != nil && !provisioned(o), "%s: is provisioned", k)
		p.unless(o != nil && status(o, "EndpointReady") == "False" && status(o, readyCondition) != "True", "%s: does not say that it waits for an endpoint", k)
	}
	return p.err()
}

func hideMissingEndpoint(r *Run) {
	s := r.Situations[NoEndpoint]
	set(condition(r.at(s.Objects[0], s.Last), "EndpointReady"), "True", "status")
}

// endpointNotOurs checks that the endpoint of a cluster changes only by requests of
// others.
func endpointNotOurs(r *Run) error {
	var p problems
	r.lastProvisioned(kindCluster, &p)
	for _, k := range r.keys(kindCluster) {
		var was any
		for i, v := range r.history(k) {
			is := value(&v.Object, "spec", "controlPlaneEndpoint")
			p.unless(i == 0 || reflect.DeepEqual(was, is) || !ingotFinalizer(&v.Object), "%s: its endpoint changed to %v at revision %d", k, is, v.Revision)
			was = is
		}
	}
	return p.err()
}

// writeEndpoint gives a cluster another port for one version.
func writeEndpoint(r *Run) {
	var p problems
	history := r.history(keyOf(r.lastProvisioned(kindCluster, &p)[0]))
	set(&history[len(history)-2].Object, int64(7443), "spec", "controlPlaneEndpoint", "port")
}

// clusterProvisioned checks that a provisioned cluster stays it, and its Cluster
// knows.
func clusterProvisioned(r *Run) error {
	var p problems
	if err := staysProvisioned(kindCluster)(r); err != nil {
		p = append(p, err)
	}
	for _, o := range r.lastProvisioned(kindCluster, &p) {
		c := r.last(Key{coreCluster, o.GetNamespace(), owner(o, coreCluster)})
		p.unless(c != nil && truth(&c.Object, "status", "initialization", "infrastructureProvisioned"), "%s: its Cluster does not know that it is provisioned", keyOf(o))
	}
	return p.err()
}

// domainsAreRacks checks the failure domains against the racks in which the servers stand,
// and which of them have a server left for a control plane.
func domainsAreRacks(r *Run) error {
	var p problems
	for _, o := range r.lastProvisioned(kindCluster, &p) {
		if value(o, "spec", "hostSelector") != nil || ofForeignManager(r, keyOf(o)) {
			continue // the run's clusters that may draw on all hosts are enough
		}
		racks, domains := r.racks(o.GetNamespace()), map[string]bool{}
		for _, d := range list(o, "status", "failureDomains") {
			domains[text(tree(d), "name")] = truth(tree(d), "controlPlane")
		}
		p.unless(maps.Equal(racks, domains), "%s: has failure domains (true: for control planes) %v, and its hosts stand in %v", keyOf(o), domains, racks)
	}
	return p.err()
}

// ofForeignManager says whether a cluster was provisioned by somebody else.
func ofForeignManager(r *Run, k Key) bool {
	return slices.Contains(r.Situations[External].Objects, k)
}

// inventDomain adds a rack that no host has, for readers of both contracts.
func inventDomain(r *Run) {
	var p problems
	o := r.lastProvisioned(kindCluster, &p)[0]
	set(o, append(list(o, "status", "failureDomains"), map[string]any{"name": "nowhere"}), "status", "failureDomains")
	if m, _ := value(r.legacy(keyOf(o)), "status", "failureDomains").(map[string]any); m != nil {
		m["nowhere"] = map[string]any{}
	}
}

// clusterGone checks that an infrastructure cluster went when its Cluster was
// deleted, and before it.
func clusterGone(r *Run) error {
	var p problems
	s, _ := r.situation(ClusterDeletion, &p)
	for _, k := range s.Objects {
		if k.Kind != kindCluster {
			continue
		}
		v := r.last(k)
		c := r.last(Key{coreCluster, k.Namespace, owner(&v.Object, coreCluster)})
		p.unless(v.Deleted, "%s: is there still", k)
		p.unless(c != nil && c.Deleted && c.Revision > v.Revision, "%s: its Cluster did not wait for it", k)
	}
	return p.err()
}

func clusterRemains(r *Run) {
	for _, k := range r.Situations[ClusterDeletion].Objects {
		if k.Kind == kindCluster {
			c := r.last(Key{coreCluster, k.Namespace, owner(&r.last(k).Object, coreCluster)})
			c.Revision = r.last(k).Revision
		}
	}
}
