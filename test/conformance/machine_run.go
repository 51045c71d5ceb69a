// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	kindMachine       = "IngotMachine"
	kindCluster       = "IngotCluster"
	kindHost          = "IngotHost"
	kindTemplate      = "IngotMachineTemplate"
	kindHardware      = "IngotHardware"
	kindNetwork       = "IngotNetwork"
	coreMachine       = "Machine"
	coreCluster       = "Cluster"
	rackLabel         = "topology.infrastructure.cluster.x-k8s.io/rack"
	clusterLabel      = "cluster.x-k8s.io/cluster-name"
	pausedCondition   = "Paused"
	readyCondition    = "Ready"
	infraReady        = "InfrastructureReady"
	providerIDPrefix  = "ingot://"
	managedBy         = "cluster.x-k8s.io/managed-by"
	pausedAnnotation  = "cluster.x-k8s.io/paused"
	blockMove         = "clusterctl.cluster.x-k8s.io/block-move"
	moveHierarchy     = "clusterctl.cluster.x-k8s.io/move-hierarchy"
	clusterctlLabel   = "clusterctl.cluster.x-k8s.io"
	providerLabel     = "cluster.x-k8s.io/provider"
	failedPermanently = "failureReason"
)

// provisioned says whether an object of Ingot's tells that all is there.
func provisioned(o *unstructured.Unstructured) bool {
	return truth(o, "status", "initialization", "provisioned")
}

// lastProvisioned are the objects of a kind that are there, provisioned and have not
// failed at the end; a run without one proves nothing.
func (r *Run) lastProvisioned(kind string, p *problems) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, k := range r.keys(kind) {
		if v := r.last(k); !v.Deleted && provisioned(&v.Object) && failure(&v.Object, failedPermanently) == "" {
			out = append(out, &v.Object)
		}
	}
	p.unless(len(out) > 0, "no %s is provisioned at the end of the run", kind)
	return out
}

// machineOf is the Machine that owns an IngotMachine, as it is at the end.
func (r *Run) machineOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	name := owner(o, coreMachine)
	if v := r.last(Key{coreMachine, o.GetNamespace(), name}); name != "" && v != nil && !v.Deleted {
		return &v.Object
	}
	return nil
}

// hostOf is the host that a provider ID names.
func hostOf(o *unstructured.Unstructured) (Key, bool) {
	parts := strings.Split(strings.TrimPrefix(text(o, "spec", "providerID"), providerIDPrefix), "/")
	if len(parts) != 3 {
		return Key{}, false
	}
	return Key{kindHost, parts[0], parts[1]}, true
}

// legacy is an object as a reader of v1beta1 gets it; an empty one if there is none.
func (r *Run) legacy(k Key) *unstructured.Unstructured {
	for i := range r.Legacy {
		if keyOf(&r.Legacy[i]) == k {
			return &r.Legacy[i]
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{}}
}

// read returns the version that a reader of v1beta1 got; nil if it is none of those that
// were recorded.
func (r *Run) read(o *unstructured.Unstructured) *Version {
	for _, v := range r.history(keyOf(o)) {
		if v.Object.GetResourceVersion() == o.GetResourceVersion() {
			return v
		}
	}
	return nil
}

// providerIDOfNodes checks that every Machine with a Node has the provider ID that
// the Node has.
func providerIDOfNodes(r *Run) error {
	var p problems
	for _, o := range r.lastProvisioned(kindMachine, &p) {
		machine := r.machineOf(o)
		if machine == nil || text(machine, "status", "nodeRef", "name") == "" {
			continue
		}
		node := r.node(machine)
		p.unless(node != nil && node.ProviderID == text(o, "spec", "providerID"), "%s: its Node has another provider ID", keyOf(o))
	}
	p.unless(len(r.Nodes) > 0, "the run has no Nodes")
	return p.err()
}

func (r *Run) node(machine *unstructured.Unstructured) *Node {
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Namespace == machine.GetNamespace() && n.Cluster == text(machine, "spec", "clusterName") && n.Name == text(machine, "status", "nodeRef", "name") {
			return n
		}
	}
	return nil
}

// providerIDFixed checks that a provider ID which a server was booted with never
// changes again, and that every provisioned Machine found its Node.
func providerIDFixed(r *Run) error {
	var p problems
	for _, k := range r.keys(kindMachine) {
		fixed := ""
		for _, v := range r.history(k) {
			id := text(&v.Object, "spec", "providerID")
			p.unless(fixed == "" || id == "" || id == fixed, "%s: the provider ID changed to %q after the server had booted with it", k, id)
			if condition(&v.Object, "Installed") != nil && id != "" {
				fixed = id
			}
			if v.Deleted {
				fixed = ""
			}
		}
	}
	for _, o := range r.lastProvisioned(kindMachine, &p) {
		if machine := r.machineOf(o); machine != nil && o.GetDeletionTimestamp() == nil {
			p.unless(text(machine, "status", "nodeRef", "name") != "", "%s: its Machine has found no Node", keyOf(o))
		}
	}
	return p.err()
}

// firstProvisioned is the key of an IngotMachine that is provisioned at the end.
func (r *Run) firstProvisioned() Key {
	var p problems
	return keyOf(r.lastProvisioned(kindMachine, &p)[0])
}

// changeProviderID changes the provider ID of one version in the middle.
func changeProviderID(r *Run) {
	k := r.firstProvisioned()
	for _, v := range r.history(k) {
		if status(&v.Object, "Installed") == "False" {
			id := text(&v.Object, "spec", "providerID")
			set(&v.Object, id[:len(id)-1]+"f", "spec", "providerID")
			return
		}
	}
	panic("no version to break")
}

// machineCopies checks that Machines have a field of their infrastructure once it
// is provisioned.
// What is optional may be missing on both sides.
func machineCopies(from, to string, needed bool) func(*Run) error {
	return func(r *Run) error {
		var p problems
		for _, o := range r.lastProvisioned(kindMachine, &p) {
			machine := r.machineOf(o)
			if machine == nil || !truth(machine, "status", "initialization", "infrastructureProvisioned") {
				p.unless(o.GetDeletionTimestamp() != nil || machine == nil, "%s: its Machine does not know that it is provisioned", keyOf(o))
				continue
			}
			is, got := value(o, strings.Split(from, ".")...), value(machine, strings.Split(to, ".")...)
			p.unless((is != nil || !needed) && reflect.DeepEqual(is, got), "%s: %s is %v, and %s of its Machine %v", keyOf(o), from, is, to, got)
		}
		return p.err()
	}
}

func breakMachineCopy(v any, path ...string) func(*Run) {
	return func(r *Run) {
		o := r.last(r.firstProvisioned())
		machine := r.last(Key{coreMachine, o.Object.GetNamespace(), owner(&o.Object, coreMachine)})
		set(&machine.Object, v, path...)
	}
}

// placedAsAsked checks that machines stand where their Machine says: their host has
// that label. A machine whose domain has no host stays without one and says why.
func placedAsAsked(r *Run) error {
	var p problems
	asked := 0
	for _, k := range r.keys(kindMachine) {
		for _, v := range r.history(k) {
			machine := r.at(Key{coreMachine, k.Namespace, owner(&v.Object, coreMachine)}, v.Revision)
			host, placed := hostOf(&v.Object)
			if machine == nil || !placed || text(machine, "spec", "failureDomain") == "" {
				continue
			}
			asked++
			p.unless(r.rack(host) == text(machine, "spec", "failureDomain"), "%s: was placed on %s, which stands in %q", k, host, r.rack(host))
		}
	}
	p.unless(asked > 0, "no Machine of the run asks for a failure domain")
	if s, ok := r.situation(Impossible, &p); ok {
		for _, k := range s.Objects {
			for _, v := range r.history(k) {
				p.unless(text(&v.Object, "spec", "providerID") == "", "%s: has a host, though its failure domain has none", k)
			}
			last := r.at(k, s.Last)
			p.unless(last != nil && status(last, "HostClaimed") == "False" && text(condition(last, "HostClaimed"), "message") != "",
				"%s: does not say why it has no host", k)
		}
	}
	return p.err()
}

// placeElsewhere makes a Machine ask for another rack than that of its server.
func placeElsewhere(r *Run) {
	o := r.last(r.firstProvisioned())
	r.edit(Key{coreMachine, o.Object.GetNamespace(), owner(&o.Object, coreMachine)}, always, func(m *unstructured.Unstructured) {
		set(m, "elsewhere", "spec", "failureDomain")
	})
}
