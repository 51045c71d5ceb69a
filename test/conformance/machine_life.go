// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// neverReportsWorker makes a machine that is not the first one never tell that it
// is provisioned.
func neverReportsWorker(r *Run) {
	var p problems
	k := keyOf(r.lastProvisioned(kindMachine, &p)[1])
	r.edit(k, always, func(o *unstructured.Unstructured) {
		unset(o, "status", "initialization")
	})
	set(r.legacy(k), false, "status", "ready")
}

// staysProvisioned checks that what was true stays true.
func staysProvisioned(kind string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		r.lastProvisioned(kind, &p)
		for _, k := range r.keys(kind) {
			was := false
			for _, v := range r.history(k) {
				if r.lostStatus(k, v.Revision) {
					was = false
					continue // a person took the status away
				}
				is := provisioned(&v.Object)
				p.unless(is || !was, "%s: was provisioned and is not at revision %d", k, v.Revision)
				was = is && !v.Deleted
			}
		}
		return p.err()
	}
}

// lostStatus reports whether a person had taken an object's status away, and it may not be
// back yet.
func (r *Run) lostStatus(k Key, revision uint64) bool {
	for _, name := range []string{StatusLost, StatusTaken} {
		if s := r.Situations[name]; slices.Contains(s.Objects, k) && s.within(revision) {
			return true
		}
	}
	return false
}

// unprovision takes the fact back for one version in the middle.
func unprovision(kind string) func(*Run) {
	return func(r *Run) {
		var p problems
		history := r.history(keyOf(r.lastProvisioned(kind, &p)[0]))
		first := slices.IndexFunc(history, func(v *Version) bool { return provisioned(&v.Object) })
		if first+2 >= len(history) {
			panic("no version in the middle")
		}
		unset(&history[first+1].Object, "status", "initialization")
	}
}

// firstReady is the first version of a Machine that knows that it is provisioned.
func (r *Run) firstReady(machine Key) *Version {
	for _, v := range r.history(machine) {
		if truth(&v.Object, "status", "initialization", "infrastructureProvisioned") {
			return v
		}
	}
	return nil
}

// takenTogether checks that a Machine got provider ID and addresses in the write in
// which it became provisioned.
func takenTogether(r *Run) error {
	var p problems
	for _, o := range r.lastProvisioned(kindMachine, &p) {
		if r.machineOf(o) == nil {
			continue
		}
		k := Key{coreMachine, o.GetNamespace(), owner(o, coreMachine)}
		v := r.firstReady(k)
		if v == nil {
			continue // M16
		}
		p.unless(text(&v.Object, "spec", "providerID") != "", "%s: became provisioned without provider ID", k)
		infra := r.at(keyOf(o), v.Revision)
		p.unless(infra != nil && (value(infra, "status", "addresses") == nil) == (value(&v.Object, "status", "addresses") == nil),
			"%s: became provisioned without addresses", k)
	}
	return p.err()
}

func takeProviderIDLater(r *Run) {
	o := r.last(r.firstProvisioned())
	v := r.firstReady(Key{coreMachine, o.Object.GetNamespace(), owner(&o.Object, coreMachine)})
	unset(&v.Object, "spec", "providerID")
}

// mirrored checks that the Ready condition of an object is the InfrastructureReady
// of its owner.
func mirrored(kind, ownerKind string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		compared := 0
		for _, k := range r.keys(kind) {
			v := r.last(k)
			of := r.last(Key{ownerKind, k.Namespace, owner(&v.Object, ownerKind)})
			ready := condition(&v.Object, readyCondition)
			if v.Deleted || of == nil || of.Deleted || ready == nil || v.Object.GetAnnotations()[pausedAnnotation] != "" {
				continue
			}
			compared++
			mirror := condition(&of.Object, infraReady)
			for _, field := range []string{"status", "reason", "message"} {
				p.unless(mirror != nil && text(mirror, field) == text(ready, field), "%s: %s of Ready is not mirrored by its %s", k, field, ownerKind)
			}
		}
		p.unless(compared > 0, "no %s has a Ready condition and a %s", kind, ownerKind)
		return p.err()
	}
}

// breakMirror makes owners of a kind see another condition.
func breakMirror(ownerKind string) func(*Run) {
	return func(r *Run) {
		for _, k := range r.keys(ownerKind) {
			if c := condition(&r.last(k).Object, infraReady); c != nil {
				set(c, "Unknown", "status")
			}
		}
	}
}

// healthy is the condition of a machine that tells of power and BMC; Ready sums it up when it
// has lasted.
const healthy = "HostHealthy"

// readyAllLife checks that Ready says something before a machine is provisioned, in
// its life, and in its deletion, and that a server that is off in its life is told of.
func readyAllLife(r *Run) error {
	var p problems
	seen := map[string]int{}
	s, _ := r.situation(PowerLost, &p)
	for _, k := range s.Objects {
		off, on := r.at(k, s.Last), r.last(k)
		p.unless(off != nil && provisioned(off) && status(off, healthy) == "False" && text(condition(off, healthy), "message") != "", "%s: does not say that its server is off", k)
		p.unless(on != nil && status(&on.Object, healthy) == "True", "%s: does not say that its server is on again", k)
	}
	for _, k := range r.keys(kindMachine) {
		for _, v := range r.history(k) {
			o := &v.Object
			deleting := o.GetDeletionTimestamp() != nil
			switch s := status(o, readyCondition); {
			case deleting && provisioned(o) && s == "False":
				seen["deletion"]++
			case !deleting && provisioned(o) && s == "True":
				seen["life"]++
			case !deleting && !provisioned(o) && (s == "False" || s == "Unknown"):
				seen["creation"]++
			}
			p.unless(!provisioned(o) || condition(o, readyCondition) != nil || v.Deleted, "%s: has no Ready at revision %d", k, v.Revision)
		}
	}
	for _, part := range []string{"creation", "life", "deletion"} {
		p.unless(seen[part] > 0, "no machine has a Ready condition in its %s", part)
	}
	return p.err()
}

// silentDeletion makes all machines go without a word.
func silentDeletion(r *Run) {
	for i := range r.Versions {
		o := &r.Versions[i].Object
		if o.GetKind() == kindMachine && o.GetDeletionTimestamp() != nil {
			if c := condition(o, readyCondition); c != nil {
				set(c, "True", "status")
			}
		}
	}
}

// failure reads a failure as the hub keeps it.
func failure(o *unstructured.Unstructured, field string) string {
	return text(o, "status", "deprecated", "v1beta1", field)
}

// terminalFailure checks that a machine that failed for good says so to readers of
// v1beta1, with a reason and a message, and to readers of v1beta2 in a condition.
func terminalFailure(r *Run) error {
	var p problems
	s, _ := r.situation(Terminal, &p)
	for _, k := range s.Objects {
		legacy := r.legacy(k)
		p.unless(text(legacy, "status", "failureReason") != "", "%s: a reader of v1beta1 sees no failureReason", k)
		p.unless(text(legacy, "status", "failureMessage") != "", "%s: a reader of v1beta1 sees no failureMessage", k)
	}
	return p.err()
}

// noFalseAlarm checks that no other machine than the one that was made to fail for good
// says so, not even one that waits for a host in vain, and that the failure stays.
func noFalseAlarm(r *Run) error {
	var p problems
	s, _ := r.situation(Terminal, &p)
	r.situation(Impossible, &p)
	for _, k := range r.keys(kindMachine) {
		failed := false
		for _, v := range r.history(k) {
			is := failure(&v.Object, failedPermanently) != ""
			p.unless(is || !failed || v.Deleted, "%s: its terminal failure went away at revision %d", k, v.Revision)
			p.unless(!is || slices.Contains(s.Objects, k), "%s: says that it failed for good at revision %d, and it can work", k, v.Revision)
			failed = is
		}
	}
	return p.err()
}

// falseAlarm makes a machine that works say that it failed.
func falseAlarm(r *Run) {
	o := &r.last(r.firstProvisioned()).Object
	set(o, "UpdateError", "status", "deprecated", "v1beta1", failedPermanently)
}

// unchanged checks that versions of an object differ in nothing but what Ingot may
// write: nothing at all, or a Paused condition.
func unchanged(was, is *unstructured.Unstructured) bool {
	return reflect.DeepEqual(comparable(was), comparable(is))
}

// comparable is what must not change in a pause: all but the Paused condition, and
// what the API server writes by itself.
func comparable(o *unstructured.Unstructured) *unstructured.Unstructured {
	c := o.DeepCopy()
	for _, field := range []string{"resourceVersion", "managedFields", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "annotations"} {
		unset(c, "metadata", field)
	}
	for _, path := range [][]string{{"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"}} {
		conditions := slices.DeleteFunc(list(c, path...), func(v any) bool {
			return text(tree(v), "type") == pausedCondition
		})
		if len(conditions) == 0 {
			unset(c, path...)
		} else {
			set(c, conditions, path...)
		}
	}
	for _, path := range [][]string{{"status", "deprecated", "v1beta1"}, {"status", "deprecated"}, {"status"}} {
		if m, _ := value(c, path...).(map[string]any); m != nil && len(m) == 0 {
			unset(c, path...)
		}
	}
	return c
}
