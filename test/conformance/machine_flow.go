// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// providerID as Ingot forms it: the last segment is unique for ever.
var providerID = regexp.MustCompile(`^ingot://[a-z0-9-]+/[a-z0-9.-]+/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// machineFlow are the steps of a normal reconcile (M45–M57).
func machineFlow() []Rule {
	return []Rule{
		{ID: "M45", Level: Must, Tag: TagReconcile, Text: "without a Machine as owner nothing happens", Live: untouched(kindMachine, Unowned), BreakRun: touch(kindMachine, Unowned)},
		{ID: "M46", Level: Must, Tag: TagReconcile, Text: "after a terminal failure nothing happens", Live: stopsAtFailure, BreakRun: goOnAfterFailure},
		{ID: "M47", Level: Must, Tag: TagReconcile, Text: "without its Cluster nothing happens", Live: untouched(kindMachine, NoCluster), BreakRun: touch(kindMachine, NoCluster)},
		{ID: "M48", Level: Must, Tag: TagReconcile, Text: "a finalizer comes before anything else, and after the owner", Live: finalizerFirst(kindMachine, coreMachine), BreakRun: finalizerLate(kindMachine)},
		{ID: "M49", Level: Must, Tag: TagReconcile, Text: "no host before the Cluster's infrastructure is provisioned; deletion does not wait for it", Live: waitsForCluster, BreakRun: hurryCluster},
		{ID: "M50", Level: Must, Tag: TagReconcile, Text: "no host before there is bootstrap data", Live: waitsForBootstrap, BreakRun: hurryBootstrap},
		{ID: "M51", Level: Must, Tag: TagReconcile, Text: "a failure is told, and ends the flow", Live: failureEndsFlow, BreakRun: failSilently},
		{ID: "M52", Level: May, Tag: TagDocument, Text: "control-plane machines are registered at a load balancer: Ingot has none", Document: contractBook + "m52-no-load-balancer"},
		{ID: "M53", Level: Must, Tag: TagReconcile, Text: "a provisioned machine has its provider ID", Live: provisionedHasProviderID, BreakRun: forgetProviderID},
		{ID: "M54", Level: Must, Tag: TagReconcile, Text: "a reader of v1beta1 sees ready exactly when v1beta2 says provisioned", Live: readyIsProvisioned(kindMachine), BreakRun: unready(kindMachine)},
		{ID: "M55", Level: May, Tag: TagReconcile, Text: "a provisioned machine has addresses", Live: hasAddresses, BreakRun: eraseStatus("addresses")},
		{ID: "M56", Level: May, Tag: TagReconcile, Text: "a provisioned machine tells its failure domain", Live: tellsFailureDomain, BreakRun: eraseStatus("failureDomain")},
		{ID: "M57", Level: Must, Tag: TagReconcile, Text: "changes of machines are patches", Live: patches("ingotmachines"), BreakRun: replaces("ingotmachines")},
	}
}

// machineDeletion are the steps of a deletion (M58–M62).
func machineDeletion() []Rule {
	return []Rule{
		{ID: "M58", Level: Must, Tag: TagReconcile, Text: "deletion switches the server off and frees the host", Live: freesHost, BreakRun: keepHost,
			Deviation: "An IngotMachine whose Machine lives is not deleted: the webhook refuses it, since Cluster API would skip the drain and etcd would lose a member. Delete the Machine."},
		{ID: "M59", Level: May, Tag: TagDocument, Text: "deletion deregisters at a load balancer: Ingot has none", Document: contractBook + "m52-no-load-balancer"},
		{ID: "M60", Level: Must, Tag: TagReconcile, Text: "while releasing fails the finalizer stays", Live: keepsFinalizer(kindMachine, FailingRelease), BreakRun: giveUp(kindMachine, FailingRelease)},
		{ID: "M61", Level: Must, Tag: TagReconcile, Text: "then the finalizer goes, without an owner too", Live: letsGo(kindMachine, Unowned), BreakRun: stayForEver(kindMachine, Unowned)},
		{ID: "M62", Level: Must, Tag: TagReconcile, Text: "the finalizer goes by a patch", Live: finalizerPatched(kindMachine), BreakRun: losePatches(kindMachine)},
	}
}

// untouched checks that Ingot left the objects of a situation alone: no finalizer,
// no provider ID, no status, and no host claimed by them.
func untouched(kind, name string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		s, _ := r.situation(name, &p)
		seen := 0
		for _, k := range s.Objects {
			if k.Kind != kind {
				continue
			}
			seen++
			for _, v := range r.history(k) {
				if !s.within(v.Revision) {
					continue
				}
				o := &v.Object
				p.unless(!ingotFinalizer(o) && text(o, "spec", "providerID") == "" && value(o, "status") == nil, "%s: was worked on at revision %d", k, v.Revision)
			}
			for _, host := range r.keys(kindHost) {
				for _, v := range r.history(host) {
					claim := tree(value(&v.Object, "spec", "claim"))
					p.unless(!s.within(v.Revision) || kind != kindMachine || k.Namespace != host.Namespace || text(claim, "machineRef", "name") != k.Name, "%s: claimed %s", k, host)
				}
			}
		}
		p.unless(seen > 0, "%s: no %s", name, kind)
		return p.err()
	}
}

// touch gives the objects of a situation a status.
func touch(kind, name string) func(*Run) {
	return func(r *Run) {
		for _, k := range r.Situations[name].Objects {
			if k.Kind == kind {
				set(&r.history(k)[0].Object, "Claimed", "status", "phase")
			}
		}
	}
}

// stopsAtFailure checks that the spec of a machine that failed for good stays, and
// that its server is not worked on but to release it.
func stopsAtFailure(r *Run) error {
	var p problems
	r.situation(Terminal, &p)
	for _, k := range r.keys(kindMachine) {
		var failed *Version
		for _, v := range r.history(k) {
			if failed != nil && v.Object.GetDeletionTimestamp() == nil {
				p.unless(reflect.DeepEqual(value(&failed.Object, "spec"), value(&v.Object, "spec")), "%s: changed after its terminal failure", k)
			}
			if failed == nil && failure(&v.Object, failedPermanently) != "" {
				failed = v
			}
		}
	}
	return p.err()
}

func goOnAfterFailure(r *Run) {
	k := r.Situations[Terminal].Objects[0]
	set(&r.last(k).Object, "another", "spec", "hostname")
}

// finalizerFirst checks that an object with anything of Ingot's has its finalizer,
// and that it got the finalizer with or after its owner.
func finalizerFirst(kind, ownerKind string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		seen := 0
		for _, k := range r.keys(kind) {
			for _, v := range r.history(k) {
				o := &v.Object
				if _, external := annotation(o, managedBy); external || v.Deleted || o.GetDeletionTimestamp() != nil {
					continue
				}
				if ingotFinalizer(o) {
					seen++
					p.unless(owner(o, ownerKind) != "", "%s: has a finalizer and no owner at revision %d", k, v.Revision)
				}
				worked := text(o, "spec", "providerID") != "" || provisioned(o)
				p.unless(!worked || ingotFinalizer(o), "%s: is worked on without a finalizer at revision %d", k, v.Revision)
			}
		}
		p.unless(seen > 0, "no %s has a finalizer", kind)
		return p.err()
	}
}

func finalizerLate(kind string) func(*Run) {
	return func(r *Run) {
		var p problems
		for _, v := range r.history(keyOf(r.lastProvisioned(kind, &p)[0])) {
			if provisioned(&v.Object) {
				unset(&v.Object, "metadata", "finalizers")
				return
			}
		}
	}
}

// chosen are the versions in which machines got their provider ID.
func (r *Run) chosen() []*Version {
	var out []*Version
	for _, k := range r.keys(kindMachine) {
		id := ""
		for _, v := range r.history(k) {
			if is := text(&v.Object, "spec", "providerID"); is != id {
				if id = is; is != "" {
					out = append(out, v)
				}
			}
			if v.Deleted {
				id = ""
			}
		}
	}
	return out
}

// coreClusterOf is the Cluster of an object.
func coreClusterOf(o *unstructured.Unstructured) Key {
	return Key{coreCluster, o.GetNamespace(), o.GetLabels()[clusterLabel]}
}

// waitsForCluster checks that no machine got a host before its Cluster was ready,
// and that one deleted before that went.
func waitsForCluster(r *Run) error {
	var p problems
	chosen := r.chosen()
	for _, v := range chosen {
		c := r.at(coreClusterOf(&v.Object), v.Revision)
		p.unless(c != nil && truth(c, "status", "initialization", "infrastructureProvisioned"), "%s: got a host before its Cluster was provisioned", keyOf(&v.Object))
	}
	p.unless(len(chosen) > 0, "no machine got a host")
	r.situation(Unprepared, &p)
	s, _ := r.situation(NotReady, &p)
	for _, k := range s.Objects {
		if k.Kind == kindMachine {
			v := r.last(k)
			p.unless(v != nil && v.Deleted, "%s: stays, because its Cluster was never provisioned", k)
			p.unless(v != nil && owner(&v.Object, coreMachine) != "", "%s: had no owner", k)
		}
	}
	return p.err()
}

func hurryCluster(r *Run) {
	k := coreClusterOf(&r.chosen()[0].Object)
	for _, v := range r.history(k) {
		if v.Revision < r.chosen()[0].Revision {
			unset(&v.Object, "status", "initialization")
		}
	}
}

// waitsForBootstrap checks that no machine got a host before its Machine had
// bootstrap data.
func waitsForBootstrap(r *Run) error {
	var p problems
	chosen := r.chosen()
	for _, v := range chosen {
		m := r.at(Key{coreMachine, v.Object.GetNamespace(), owner(&v.Object, coreMachine)}, v.Revision)
		p.unless(m != nil && text(m, "spec", "bootstrap", "dataSecretName") != "", "%s: got a host before there was bootstrap data", keyOf(&v.Object))
	}
	r.situation(Unprepared, &p)
	p.unless(len(chosen) > 0, "no machine got a host")
	return p.err()
}

func hurryBootstrap(r *Run) {
	v := r.chosen()[0]
	for _, m := range r.history(Key{coreMachine, v.Object.GetNamespace(), owner(&v.Object, coreMachine)}) {
		if m.Revision < v.Revision {
			unset(&m.Object, "spec", "bootstrap")
		}
	}
}

// failureEndsFlow checks that what failed says so, and why, and is not Ready.
func failureEndsFlow(r *Run) error {
	var p problems
	s, _ := r.situation(Terminal, &p)
	for _, k := range s.Objects {
		o := &r.last(k).Object
		p.unless(failure(o, failedPermanently) != "", "%s: has not failed", k)
		ready := condition(o, readyCondition)
		p.unless(ready != nil && text(ready, "status") == "False" && text(ready, "reason") != "" && text(ready, "message") != "", "%s: failed, and Ready does not say why", k)
	}
	return p.err()
}

// failSilently takes the words away, from the mirror of core too.
func failSilently(r *Run) {
	k := r.Situations[Terminal].Objects[0]
	o := &r.last(k).Object
	set(condition(o, readyCondition), "", "message")
	if v := r.last(Key{coreMachine, k.Namespace, owner(o, coreMachine)}); v != nil && condition(&v.Object, infraReady) != nil {
		set(condition(&v.Object, infraReady), "", "message")
	}
}

// provisionedHasProviderID checks each version of each machine.
func provisionedHasProviderID(r *Run) error {
	var p problems
	r.lastProvisioned(kindMachine, &p)
	for _, k := range r.keys(kindMachine) {
		for _, v := range r.history(k) {
			p.unless(!provisioned(&v.Object) || providerID.MatchString(text(&v.Object, "spec", "providerID")), "%s: is provisioned without a provider ID at revision %d", k, v.Revision)
		}
	}
	return p.err()
}

func forgetProviderID(r *Run) {
	for _, v := range r.history(r.firstProvisioned()) {
		if provisioned(&v.Object) {
			unset(&v.Object, "spec", "providerID")
			return
		}
	}
}

// readyIsProvisioned compares what readers of the two contracts see.
func readyIsProvisioned(kind string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		seen := 0
		for i := range r.Legacy {
			o := &r.Legacy[i]
			if o.GetKind() != kind {
				continue
			}
			same := r.read(o)
			if same == nil {
				continue
			}
			p.unless(truth(o, "status", "ready") == provisioned(&same.Object), "%s: ready is %t", keyOf(o), truth(o, "status", "ready"))
			if truth(o, "status", "ready") {
				seen++
			}
		}
		p.unless(seen > 0, "a reader of v1beta1 sees no %s ready", kind)
		return p.err()
	}
}

func unready(kind string) func(*Run) {
	return func(r *Run) {
		for i := range r.Legacy {
			if r.Legacy[i].GetKind() == kind && truth(&r.Legacy[i], "status", "ready") {
				set(&r.Legacy[i], false, "status", "ready")
				return
			}
		}
	}
}

// tellsFailureDomain checks that a provisioned machine tells the rack of its host.
func tellsFailureDomain(r *Run) error {
	var p problems
	for _, o := range r.lastProvisioned(kindMachine, &p) {
		host, _ := hostOf(o)
		rack := r.rack(host)
		p.unless(rack != "" && text(o, "status", "failureDomain") == rack, "%s: tells %q, and its server stands in %q", keyOf(o), text(o, "status", "failureDomain"), rack)
	}
	return p.err()
}

// eraseStatus removes a field from a machine and from the Machine that copied it.
func eraseStatus(field string) func(*Run) {
	return func(r *Run) {
		k := r.firstProvisioned()
		m := Key{coreMachine, k.Namespace, owner(&r.last(k).Object, coreMachine)}
		for _, k := range []Key{k, m} {
			r.edit(k, always, func(o *unstructured.Unstructured) { unset(o, "status", field) })
		}
	}
}

// patches checks that Ingot changes objects of a resource by patches only: it never
// writes back what it read, so that it cannot undo what others wrote.
func patches(resource string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		seen := map[string]int{}
		for i := range r.Writes {
			w := &r.Writes[i]
			if !w.byIngot() || w.Resource != resource || !w.done() {
				continue
			}
			seen[w.Subresource]++
			p.unless(w.Verb == "patch", "Ingot did %s %s %s/%s", w.Verb, resource, w.Namespace, w.Name)
		}
		p.unless(seen[""] > 0 && seen["status"] > 0, "Ingot changed no %s, or no status of one", resource)
		return p.err()
	}
}

func replaces(resource string) func(*Run) {
	return func(r *Run) {
		i := slices.IndexFunc(r.Writes, func(w Write) bool { return w.byIngot() && w.Resource == resource })
		w := r.Writes[i]
		w.Verb = "update"
		r.Writes = append(r.Writes, w)
	}
}

// resourceOf a kind of Ingot's.
func resourceOf(kind string) string { return strings.ToLower(kind) + "s" }
