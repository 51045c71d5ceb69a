// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// released are the last versions of machines that are gone and had an installed host: the
// server of one that was only chosen may never have been on.
func (r *Run) released() []*Version {
	var out []*Version
	for _, k := range r.keys(kindMachine) {
		if v := r.last(k); v.Deleted && text(&v.Object, "spec", "providerID") != "" && provisioned(&v.Object) && owner(&v.Object, coreMachine) != "" {
			out = append(out, v)
		}
	}
	return out
}

// freesHost checks of each machine that is gone: between its deletion and its end
// its server was switched off, and the host is no longer claimed by it.
func freesHost(r *Run) error {
	var p problems
	gone := r.released()
	for _, v := range gone {
		k := keyOf(&v.Object)
		host, _ := hostOf(&v.Object)
		off := slices.ContainsFunc(r.BMC, func(w BMCWrite) bool {
			return w.switchesOff(host) &&
				!w.Time.Before(v.Object.GetDeletionTimestamp().Time) && !w.Time.After(v.At)
		})
		p.unless(off, "%s: is gone, and its server was not switched off", k)
		h, server := r.last(host), r.server(host)
		if h == nil || h.Deleted || value(&h.Object, "spec", "claim") == nil { // no other machine has it since
			p.unless(server != nil && !server.Powered && server.Blank, "%s: is gone, and its server is not off and blank", k)
		}
		if h != nil && !h.Deleted {
			id := text(&h.Object, "spec", "claim", "instanceID")
			p.unless(id == "" || !strings.HasSuffix(text(&v.Object, "spec", "providerID"), "/"+id), "%s: is gone, and still claims %s", k, host)
		}
	}
	p.unless(len(gone) > 0, "no machine with a host was deleted")
	return p.err()
}

func keepHost(r *Run) {
	host, _ := hostOf(&r.released()[0].Object)
	r.BMC = slices.DeleteFunc(r.BMC, func(w BMCWrite) bool {
		return w.switchesOff(host)
	})
}

// switchesOff: the host's power was cut, or its system asked to shut down.
func (w BMCWrite) switchesOff(host Key) bool {
	what := strings.ToLower(w.What)
	return w.Host == host.Namespace+"/"+host.Name && (strings.Contains(what, "off") || strings.Contains(what, "shutdown"))
}

// keepsFinalizer checks that the objects of a situation, which are being deleted
// and cannot be yet, keep their finalizer and stay.
func keepsFinalizer(kind, name string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		s, _ := r.situation(name, &p)
		seen := 0
		for _, k := range s.Objects {
			if k.Kind != kind {
				continue
			}
			for _, v := range r.history(k) {
				p.unless(!s.within(v.Revision) || v.Object.GetDeletionTimestamp() == nil || !v.Deleted && ingotFinalizer(&v.Object),
					"%s: lost its finalizer at revision %d", k, v.Revision)
			}
			if o := r.at(k, s.Last); o != nil && o.GetDeletionTimestamp() != nil {
				seen++
				p.unless(ingotFinalizer(o), "%s: has no finalizer", k)
			}
		}
		p.unless(seen > 0, "%s: no %s is being deleted", name, kind)
		return p.err()
	}
}

func giveUp(kind, name string) func(*Run) {
	return func(r *Run) {
		s := r.Situations[name]
		for _, k := range s.Objects {
			for _, v := range r.history(k) {
				if k.Kind == kind && s.within(v.Revision) && v.Object.GetDeletionTimestamp() != nil {
					unset(&v.Object, "metadata", "finalizers")
				}
			}
		}
	}
}

// letsGo checks that all objects of a kind that were to be deleted are gone at the
// end, and that one of a situation is among them.
func letsGo(kind, name string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		for _, k := range r.keys(kind) {
			v := r.last(k)
			p.unless(v.Deleted || v.Object.GetDeletionTimestamp() == nil, "%s: is still being deleted", k)
		}
		s, _ := r.situation(name, &p)
		for _, k := range s.Objects {
			v := r.last(k)
			p.unless(k.Kind != kind || (v != nil && v.Deleted), "%s: is not gone", k)
		}
		return p.err()
	}
}

func stayForEver(kind, name string) func(*Run) {
	return func(r *Run) {
		for _, k := range r.Situations[name].Objects {
			if k.Kind == kind {
				r.last(k).Deleted = false
			}
		}
	}
}

// finalizerPatched checks that the last request of Ingot's for an object that had
// its finalizer, and that took it away, was a patch of the object itself.
func finalizerPatched(kind string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		gone := 0
		for _, k := range r.keys(kind) {
			v := r.last(k)
			had := slices.ContainsFunc(r.history(k), func(v *Version) bool { return ingotFinalizer(&v.Object) })
			if !v.Deleted || !had {
				continue
			}
			gone++
			var last *Write
			for i := range r.Writes {
				w := &r.Writes[i]
				if w.byIngot() && w.done() && w.Resource == resourceOf(kind) && w.Namespace == k.Namespace && w.Name == k.Name && w.Subresource == "" {
					last = w
				}
			}
			p.unless(last != nil && last.Verb == "patch" && !last.Time.Before(v.Object.GetDeletionTimestamp().Time), "%s: its finalizer did not go by a patch", k)
		}
		p.unless(gone > 0, "no %s with a finalizer was deleted", kind)
		return p.err()
	}
}

// losePatches forgets the patches of the objects that are gone.
func losePatches(kind string) func(*Run) {
	return func(r *Run) {
		for _, k := range r.keys(kind) {
			if !r.last(k).Deleted {
				continue
			}
			r.Writes = slices.DeleteFunc(r.Writes, func(w Write) bool {
				return w.Resource == resourceOf(kind) && w.Name == k.Name && w.Subresource == ""
			})
		}
	}
}

// always is a condition for edit.
func always(*unstructured.Unstructured) bool { return true }
