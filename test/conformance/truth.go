// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The checks here compare what Ingot says with what the simulated site knows to be true.

// server returns what the site knows of the server of a host; nil if it knows none.
func (r *Run) server(host Key) *Server {
	for i := range r.Servers {
		if r.Servers[i].Host == host {
			return &r.Servers[i]
		}
	}
	return nil
}

// rack returns where the server of a host stands: by the site, else by the host's label.
func (r *Run) rack(host Key) string {
	if server := r.server(host); server != nil {
		return server.Rack
	}
	if v := r.last(host); v != nil {
		return v.Object.GetLabels()[rackLabel]
	}
	return ""
}

// racks returns the racks of a namespace's hosts, each with whether a server is left in it
// for another machine of a control plane: one that is off and blank, and chosen by no
// machine.
func (r *Run) racks(namespace string) map[string]bool {
	chosen := map[Key]bool{}
	for _, k := range r.keys(kindMachine) {
		if v := r.last(k); !v.Deleted {
			host, _ := hostOf(&v.Object)
			chosen[host] = true
		}
	}
	out := map[string]bool{}
	for _, k := range r.keys(kindHost) {
		rack := r.rack(k)
		if v := r.last(k); v.Deleted || k.Namespace != namespace || rack == "" {
			continue
		}
		server := r.server(k)
		out[rack] = out[rack] || server != nil && !server.Powered && server.Blank && !chosen[k]
	}
	return out
}

// hasAddresses checks the addresses of provisioned machines: the name of the Node, and the
// addresses that its system has, no more and no fewer.
func hasAddresses(r *Run) error {
	var p problems
	compared := 0
	for _, o := range r.lastProvisioned(kindMachine, &p) {
		machine := r.machineOf(o)
		if machine == nil || text(machine, "status", "nodeRef", "name") == "" {
			continue
		}
		node := r.node(machine)
		if node == nil {
			p.add("%s: the site knows no Node of its", keyOf(o))
			continue
		}
		compared++
		got := map[string][]string{}
		for _, a := range list(o, "status", "addresses") {
			kind := text(tree(a), "type")
			got[kind] = append(got[kind], text(tree(a), "address"))
		}
		p.unless(slices.Equal(got["Hostname"], []string{node.Name}), "%s: its names are %v, and that of its Node is %s", keyOf(o), got["Hostname"], node.Name)
		p.unless(slices.Equal(got["InternalIP"], []string{node.Address}), "%s: its addresses are %v, and its system has %s", keyOf(o), got["InternalIP"], node.Address)
	}
	p.unless(compared > 0, "no provisioned machine has a Node")
	return p.err()
}

// reportsProvisioned checks that exactly those machines say that they are provisioned whose
// server has their installed system on its disk.
func reportsProvisioned(r *Run) error {
	var p problems
	seen := 0
	for _, k := range r.keys(kindMachine) {
		v := r.last(k)
		if v.Deleted || v.Object.GetDeletionTimestamp() != nil || failure(&v.Object, failedPermanently) != "" {
			continue
		}
		host, _ := hostOf(&v.Object)
		id := text(&v.Object, "spec", "providerID")
		server := r.server(host)
		installed := server != nil && server.Instance != "" && strings.HasSuffix(id, "/"+server.Instance)
		p.unless(installed == provisioned(&v.Object), "%s: its system is on the disk of its server: %t, and it says the opposite", k, installed)
		if installed {
			seen++
		}
	}
	p.unless(seen > 0, "no server is installed at the end of the run")
	return p.err()
}

// capacityTold checks the capacity of templates against the servers that they can select,
// which are all of their namespace, and all alike.
func capacityTold(r *Run) error {
	var p problems
	told := 0
	for _, k := range r.keys(kindTemplate) {
		o := &r.last(k).Object
		i := slices.IndexFunc(r.Servers, func(s Server) bool { return s.Host.Namespace == k.Namespace })
		if r.last(k).Deleted || i < 0 {
			continue
		}
		told++
		server := r.Servers[i]
		p.unless(amount(o, "cpu") == server.CPUs, "%s: tells %s CPUs, and its servers have %d", k, text(o, "status", "capacity", "cpu"), server.CPUs)
		p.unless(amount(o, "memory") == server.MemoryBytes, "%s: tells %s of memory, and its servers have %d", k, text(o, "status", "capacity", "memory"), server.MemoryBytes)
		p.unless(text(o, "status", "nodeInfo", "architecture") == "amd64", "%s: tells architecture %q", k, text(o, "status", "nodeInfo", "architecture"))
	}
	p.unless(told > 0, "no template of the run is in a namespace with servers")
	return p.err()
}

// amount of a resource in a template's capacity; -1 if it has none.
func amount(o *unstructured.Unstructured, name string) int64 {
	q, err := resource.ParseQuantity(text(o, "status", "capacity", name))
	if err != nil {
		return -1
	}
	return q.Value()
}

// endpointsServed checks that clusters and their Clusters have the endpoint by which the
// site serves them.
func endpointsServed(r *Run, p *problems) {
	for k, want := range r.Endpoints {
		v := r.last(k)
		if v == nil {
			p.add("%s: was never there", k)
			continue
		}
		got := fmt.Sprint(text(&v.Object, "spec", "controlPlaneEndpoint", "host"), ":", value(&v.Object, "spec", "controlPlaneEndpoint", "port"))
		p.unless(got == want, "%s: its endpoint is %q, and it is served at %s", k, got, want)
	}
	p.unless(len(r.Endpoints) > 0, "the site serves no cluster")
}
