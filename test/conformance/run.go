// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Run is what happened in a management cluster with Cluster API's own
// controllers, Ingot and servers, from before the first object on.
type Run struct {
	// Kinds are Ingot's kinds.
	Kinds []Kind
	// Servers are what the site knows of its servers, at the end, and Endpoints by which
	// host and port it serves the API servers of infrastructure clusters.
	Servers   []Server
	Endpoints map[Key]string
	// Stuck are the steps of the run that did not end.
	Stuck []string
	// Versions of all objects of Cluster API and of Ingot, in the order in which they
	// were written.
	Versions []Version
	// Writes are the requests to the API server that change something, as its audit
	// log has them.
	Writes []Write
	// BMC has all writes to BMCs.
	BMC []BMCWrite
	// Nodes of the workload clusters, at the end.
	Nodes []Node
	// Legacy are Ingot's objects as a reader of v1beta1 gets them; each is of the
	// revision of a version above.
	Legacy []unstructured.Unstructured
	// Commands of clusterctl.
	Commands []Command
	// Situations are what was brought about on purpose, by name.
	Situations map[string]Situation
	// Rebuilt are objects before their status was lost, and after it was rebuilt.
	Rebuilt []Rebuilt
	// Moved is what clusterctl move saw and did.
	Moved Moved
	// Hooks are what Cluster API asked the runtime extension, in their order, and
	// Extensions the ExtensionConfigs by which it found it.
	Hooks      []HookCall
	Extensions []unstructured.Unstructured
}

// A Version is one version of an object.
type Version struct {
	// Revision orders the versions of all objects: it is etcd's.
	Revision uint64
	// At is when it was seen.
	At time.Time
	// Deleted says that this is the object's last version.
	Deleted bool
	Object  unstructured.Unstructured
}

// A Write is a request that changes an object.
type Write struct {
	User, Verb, Resource, Subresource, Namespace, Name string
	// Code of the answer.
	Code int
	Time time.Time
}

// A BMCWrite is a request that changes a server.
type BMCWrite struct {
	// Host is "<namespace>/<name>".
	Host string
	// User that logged in.
	User string
	// What was written, for people.
	What string
	Time time.Time
}

// A Node of a workload cluster. Address is the one that its system has.
type Node struct{ Namespace, Cluster, Name, ProviderID, Address string }

// A Server is what the site knows of a server, whatever Ingot says.
type Server struct {
	// Host is its IngotHost.
	Host Key
	// Rack that it stands in.
	Rack string
	// Powered: it is on. Blank: nothing is on its disk. Instance is the one whose installed
	// system is on it.
	Powered, Blank bool
	Instance       string
	CPUs           int64
	MemoryBytes    int64
}

// A Command of clusterctl.
type Command struct {
	// Name is the subcommand: init, generate cluster, move.
	Name string
	Err  string
}

// A Situation is something that was brought about on purpose.
type Situation struct {
	// Objects that it is about.
	Objects []Key
	// From and To bound the time in which it lasted.
	From, To time.Time
	// First and Last bound the same by revision.
	First, Last uint64
}

// Rebuilt is an object before and after its status was lost.
type Rebuilt struct{ Before, After unstructured.Unstructured }

// Moved is what clusterctl move would take, and what it did.
type Moved struct {
	// Kinds that discovery found, as "Kind".
	Kinds []string
	// Revision at which it looked.
	Revision uint64
	// Objects that it takes.
	Objects []Key
	// Global are those of them that it neither updates nor removes.
	Global []Key
}

// A Key names an object.
type Key struct{ Kind, Namespace, Name string }

func (k Key) String() string { return fmt.Sprintf("%s %s/%s", k.Kind, k.Namespace, k.Name) }

// Situations that a run has.
const (
	Unowned          = "a machine without owner"
	NoCluster        = "a machine whose cluster is not there"
	UnownedCluster   = "an infrastructure cluster without owner"
	External         = "an externally managed cluster"
	PausedObject     = "objects paused by annotation"
	PausedCluster    = "objects of a paused cluster"
	Impossible       = "a machine whose failure domain has no host"
	Unprepared       = "machines whose Cluster is not provisioned, or whose bootstrap data is missing, while hosts are free"
	Terminal         = "a machine that failed for good"
	NotReady         = "a machine deleted before its cluster was ready"
	PowerLost        = "a machine whose server a person switched off"
	FailingRelease   = "a machine deleted while its BMC fails"
	NoEndpoint       = "a cluster without endpoint"
	ClusterDeletion  = "a cluster deleted while machines are there"
	ForeignNamespace = "objects outside of --namespace"
	ForeignFilter    = "objects outside of --watch-filter"
	OwnNamespace     = "objects inside of --namespace"
	StatusLost       = "objects whose status a person took away"
	StatusTaken      = "paused objects whose status a person took away"
	OwnFilter        = "objects inside of --watch-filter"
)

// Ingot's identity begins with this.
const ingotUser = "system:serviceaccount:ingot-system:ingot-"

// keyOf names an object.
func keyOf(o *unstructured.Unstructured) Key {
	return Key{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// history is all versions of an object. Of a name that was used twice these are
// the versions of both.
func (r *Run) history(k Key) []*Version {
	var out []*Version
	for i := range r.Versions {
		if keyOf(&r.Versions[i].Object) == k {
			out = append(out, &r.Versions[i])
		}
	}
	return out
}

// last is the last version of an object, nil if there was none.
func (r *Run) last(k Key) *Version {
	for i := len(r.Versions) - 1; i >= 0; i-- {
		if keyOf(&r.Versions[i].Object) == k {
			return &r.Versions[i]
		}
	}
	return nil
}

// at is an object as it was when a revision was written; nil if it was not there.
func (r *Run) at(k Key, revision uint64) *unstructured.Unstructured {
	var found *Version
	for i := range r.Versions {
		v := &r.Versions[i]
		if v.Revision > revision {
			break
		}
		if keyOf(&v.Object) == k {
			found = v
		}
	}
	if found == nil || found.Deleted {
		return nil
	}
	return &found.Object
}

// keys of the objects of a kind that were there at any time.
func (r *Run) keys(kind string) []Key {
	var out []Key
	seen := map[Key]bool{}
	for i := range r.Versions {
		if k := keyOf(&r.Versions[i].Object); k.Kind == kind && !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// situation is one by name; it is a problem if it never came about.
func (r *Run) situation(name string, p *problems) (Situation, bool) {
	s, ok := r.Situations[name]
	if !ok || len(s.Objects) == 0 {
		p.add("the run has no %s", name)
		if len(r.Stuck) > 0 {
			p.add("steps that did not end: %s", strings.Join(r.Stuck, ", "))
		}
	}
	return s, ok && len(s.Objects) > 0
}

// edit changes all versions of an object from the first on for which when is true.
func (r *Run) edit(k Key, when func(*unstructured.Unstructured) bool, change func(*unstructured.Unstructured)) {
	began := false
	for i := range r.Versions {
		o := &r.Versions[i].Object
		if keyOf(o) != k {
			continue
		}
		if began = began || when(o); began {
			change(o)
		}
	}
	if !began {
		panic("nothing to break in " + k.String())
	}
}

// Clone copies a run.
func (r *Run) Clone() *Run {
	c := *r
	c.Versions = slices.Clone(r.Versions)
	for i := range c.Versions {
		c.Versions[i].Object = *r.Versions[i].Object.DeepCopy()
	}
	c.Kinds, c.Servers, c.Endpoints, c.Stuck = slices.Clone(r.Kinds), slices.Clone(r.Servers), maps.Clone(r.Endpoints), slices.Clone(r.Stuck)
	c.Writes, c.BMC, c.Nodes = slices.Clone(r.Writes), slices.Clone(r.BMC), slices.Clone(r.Nodes)
	c.Legacy, c.Commands = cloneObjects(r.Legacy), slices.Clone(r.Commands)
	c.Situations = map[string]Situation{}
	for name, s := range r.Situations {
		s.Objects = slices.Clone(s.Objects)
		c.Situations[name] = s
	}
	c.Rebuilt = slices.Clone(r.Rebuilt)
	for i := range c.Rebuilt {
		c.Rebuilt[i] = Rebuilt{Before: *r.Rebuilt[i].Before.DeepCopy(), After: *r.Rebuilt[i].After.DeepCopy()}
	}
	c.Hooks, c.Extensions = cloneCalls(r.Hooks), cloneObjects(r.Extensions)
	c.Moved.Kinds, c.Moved.Objects, c.Moved.Global = slices.Clone(r.Moved.Kinds), slices.Clone(r.Moved.Objects), slices.Clone(r.Moved.Global)
	return &c
}

// condition of an object in the form of Kubernetes, wherever the version has it.
func condition(o *unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, c := range list(o, "status", "conditions") {
		if t := tree(c); text(t, "type") == kind {
			return t
		}
	}
	return nil
}

// status of a condition; empty if there is none.
func status(o *unstructured.Unstructured, kind string) string {
	if c := condition(o, kind); c != nil {
		return text(c, "status")
	}
	return ""
}

// owner is the name of the owner of a kind; empty if there is none.
func owner(o *unstructured.Unstructured, kind string) string {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == kind {
			return ref.Name
		}
	}
	return ""
}

// ingotFinalizer says whether an object has a finalizer of Ingot's.
func ingotFinalizer(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetFinalizers(), func(f string) bool { return strings.Contains(f, "ingot") })
}

// byIngot says whether Ingot asked.
func (w *Write) byIngot() bool { return strings.HasPrefix(w.User, ingotUser) }

// done says whether the API server did it.
func (w *Write) done() bool { return w.Code >= 200 && w.Code < 300 }

// during says whether a time is in a situation.
func (s *Situation) during(t time.Time) bool { return !t.Before(s.From) && !t.After(s.To) }

// within says whether a revision is in a situation.
func (s *Situation) within(revision uint64) bool { return revision >= s.First && revision <= s.Last }
