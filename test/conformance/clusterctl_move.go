// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// moveAlone is the label of definitions whose objects move without what they own.
const moveAlone = "clusterctl.cluster.x-k8s.io/move"

var (
	// ownedKinds move because a Cluster owns them, at some remove. All others need a label.
	ownedKinds = []string{machines, machineTemplates, clusters, clusterTemplates, "ingotremediations"}
	// globalKinds are cluster-scoped.
	globalKinds = []string{networks, "ingotimages"}
)

// moveRules are the rules of clusterctl move (K48–K54).
func moveRules() []Rule {
	return []Rule{
		{
			ID: "K48", Level: Must, Tag: TagShipRun, Text: "move finds the kinds by the label that clusterctl puts on their definitions",
			Check: func(s *Shipped) error {
				var p problems
				n := 0
				for _, o := range ofKind(s.Installed.Objects, "CustomResourceDefinition") {
					n++
					_, ok := o.GetLabels()[clusterctlLabel]
					p.unless(ok, "the definition %s has no label %s", o.GetName(), clusterctlLabel)
				}
				p.unless(n >= len(machineKinds)+len(clusterKinds)+len(inventory), "clusterctl installs %d definitions", n)
				return p.err()
			},
			Break: func(s *Shipped) {
				o := ofKind(s.Installed.Objects, "CustomResourceDefinition")[0]
				labels := o.GetLabels()
				delete(labels, clusterctlLabel)
				o.SetLabels(labels)
			},
			Live: func(r *Run) error {
				var p problems
				for _, kind := range r.kindsBut(&p, nil) {
					p.unless(slices.Contains(r.Moved.Kinds, kind), "move does not discover %s", kind)
				}
				return p.err()
			},
			BreakRun: func(r *Run) {
				r.Moved.Kinds = slices.DeleteFunc(r.Moved.Kinds, func(kind string) bool { return kind == kindHardware })
			},
		},
		{
			ID: "K49", Level: Must, Tag: TagShipRun, Text: "the inventory moves with what it owns, claimed or not, by the label of its definitions",
			Check: func(s *Shipped) error {
				var p problems
				for _, plural := range s.plurals(ownedKinds...) {
					labels := s.shippedDefinition(plural).GetLabels()
					_, hierarchy := labels[moveHierarchy]
					_, alone := labels[moveAlone]
					p.unless(hierarchy || alone, "%s has neither label %s nor %s", plural, moveHierarchy, moveAlone)
				}
				return p.err()
			},
			Break: func(s *Shipped) { dropLabel(s, hardwares, moveHierarchy) },
			Live:  inventoryMoves,
			BreakRun: func(r *Run) {
				r.Moved.Objects = slices.DeleteFunc(r.Moved.Objects, func(k Key) bool { return k.Kind == "Secret" })
			},
		},
		{
			ID: "K50", Level: Must, Tag: TagShipRun, Text: "what is cluster-scoped is copied and stays; it holds nothing of one cluster",
			Check: func(s *Shipped) error {
				var p problems
				for _, plural := range s.plurals(ownedKinds...) {
					scope := text(s.shippedDefinition(plural), "spec", "scope")
					p.unless((scope == "Cluster") == slices.Contains(globalKinds, plural), "%s has scope %q", plural, scope)
				}
				return p.err()
			},
			Break: func(s *Shipped) { set(s.shippedDefinition(networks), "Namespaced", "spec", "scope") },
			Live:  globalCopied,
			BreakRun: func(r *Run) {
				r.Moved.Global = append(r.Moved.Global, Key{"Secret", "site", "bmc"})
			},
		},
		{ID: "K51", Level: Should, Tag: TagDocument, Text: "what an operator does for a move is documented", Document: moveBook},
		{ID: "K52", Level: Must, Tag: TagReconcile, Text: "Cluster.spec.paused is respected: no write but Paused, and none to a BMC", Live: quietInPause, BreakRun: workInPause},
		{ID: "K53", Level: May, Tag: TagReconcile, Text: "hosts carry block-move until they are paused", Live: blocksMove, BreakRun: unblock},
		{ID: "K54", Level: Must, Tag: TagReconcile, Text: "a lost status is rebuilt", Live: statusRebuilt, BreakRun: func(r *Run) { unset(&r.Rebuilt[0].After, "status") }},
	}
}

// globalCopied checks that what move copies and never updates is cluster-scoped, and all of
// that.
func globalCopied(r *Run) error {
	var p problems
	for _, k := range r.Moved.Global {
		p.unless(slices.Contains(r.globalKinds(), k.Kind), "%s would never be updated nor removed", k)
	}
	for _, kind := range r.globalKinds() {
		p.unless(slices.ContainsFunc(r.Moved.Global, func(k Key) bool { return k.Kind == kind }), "move copies no %s", kind)
	}
	p.unless(len(r.globalKinds()) > 0, "no kind is cluster-scoped")
	return p.err()
}

// inventoryMoves checks that move takes everything of Ingot's in the namespace that was
// moved, and the hosts' Secrets. What no Cluster owns was there, so that the labels count.
func inventoryMoves(r *Run) error {
	var p problems
	p.unless(slices.ContainsFunc(r.Moved.Objects, func(k Key) bool { return k.Kind == "Secret" }), "move takes no Secret")
	for _, kind := range r.kindsBut(&p, nil, r.globalKinds()...) {
		moved := 0
		for _, k := range r.keys(kind) {
			if len(r.Moved.Objects) == 0 || k.Namespace != r.Moved.Objects[0].Namespace || r.at(k, r.Moved.Revision) == nil {
				continue
			}
			moved++
			p.unless(slices.Contains(r.Moved.Objects, k), "move leaves %s", k)
		}
		_, needed := ownerless[kind]
		p.unless(moved > 0 || !needed, "there is no %s to move", kind)
	}
	return p.err()
}

// quietInPause checks that while a Cluster is paused Ingot writes to its servers
// nothing and to its objects only what tells of the pause.
func quietInPause(r *Run) error {
	var p problems
	s, _ := r.situation(PausedCluster, &p)
	hosts := 0
	for _, k := range s.Objects {
		if k.Kind == kindHost {
			hosts++
			for _, w := range r.BMC {
				p.unless(w.Host != k.Namespace+"/"+k.Name || !s.during(w.Time), "%s: %s in the pause", k, w.What)
			}
		}
		for i := range r.Writes {
			w := &r.Writes[i]
			ours := w.byIngot() && w.done() && s.during(w.Time) && w.Resource == resourceOf(k.Kind) && w.Namespace == k.Namespace && w.Name == k.Name
			p.unless(!ours || w.Verb == "patch", "%s: %s in the pause", k, w.Verb)
		}
	}
	p.unless(hosts > 0, "no host belongs to the paused Cluster")
	return p.err()
}

func workInPause(r *Run) {
	s := r.Situations[PausedCluster]
	for _, k := range s.Objects {
		if k.Kind == kindHost {
			i := slices.IndexFunc(r.BMC, func(w BMCWrite) bool { return w.Host == k.Namespace+"/"+k.Name })
			r.BMC = append(r.BMC, BMCWrite{Host: k.Namespace + "/" + k.Name, User: r.BMC[i].User, What: "reset", Time: s.From})
			return
		}
	}
}

// blocksMove checks the hosts of a Cluster that was paused: block-move before, and
// none once their Paused condition is true.
func blocksMove(r *Run) error {
	var p problems
	s, _ := r.situation(PausedCluster, &p)
	seen := 0
	for _, k := range s.Objects {
		if k.Kind != kindHost {
			continue
		}
		seen++
		before, in := r.at(k, s.First-1), r.at(k, s.Last)
		_, blocked := annotation(before, blockMove)
		p.unless(blocked, "%s: carried no %s before the pause", k, blockMove)
		_, blocked = annotation(in, blockMove)
		p.unless(!blocked, "%s: still blocks the move in the pause", k)
		for _, v := range r.history(k) {
			_, blocked := annotation(&v.Object, blockMove)
			p.unless(!s.within(v.Revision) || blocked || status(&v.Object, pausedCondition) == "True", "%s: lets the move go before it is paused", k)
		}
	}
	p.unless(seen > 0, "no host belongs to the paused Cluster")
	return p.err()
}

func annotation(o *unstructured.Unstructured, key string) (string, bool) {
	if o == nil {
		return "", false
	}
	v, ok := o.GetAnnotations()[key]
	return v, ok
}

func unblock(r *Run) {
	s := r.Situations[PausedCluster]
	for _, k := range s.Objects {
		if k.Kind == kindHost {
			unset(r.at(k, s.First-1), "metadata", "annotations")
			return
		}
	}
}

// statusRebuilt compares objects before and after their status was lost, without
// times: these are when a thing was seen.
func statusRebuilt(r *Run) error {
	var p problems
	kinds := map[string]bool{}
	r.situation(StatusLost, &p)
	for _, pair := range r.Rebuilt {
		k := keyOf(&pair.Before)
		kinds[k.Kind] = true
		p.unless(slices.ContainsFunc(r.history(k), func(v *Version) bool {
			return r.lostStatus(k, v.Revision) && len(essence(&v.Object)) == 0
		}), "%s: never lost its status", k)
		before, after := essence(&pair.Before), essence(&pair.After)
		p.unless(reflect.DeepEqual(before, after), "%s: status was %v, and is %v", k, before, after)
	}
	for _, kind := range r.kindsBut(&p, notReconciled) {
		p.unless(kinds[kind], "no %s lost its status", kind)
	}
	return p.err()
}

// essence is the part of a status that decisions are made by: conditions by type
// and status, and what Cluster API reads.
func essence(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for _, c := range list(o, "status", "conditions") {
		out["condition "+text(tree(c), "type")] = text(tree(c), "status")
	}
	for _, field := range []string{"initialization", "failureDomain", "failureDomains", "hostRef", "phase", "power", "capacity", "nodeInfo"} {
		if v := value(o, "status", field); v != nil {
			out[field] = v
		}
	}
	return out
}
