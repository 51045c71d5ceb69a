// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"slices"
)

const (
	kindClusterTemplate     = "IngotClusterTemplate"
	kindImage               = "IngotImage"
	kindReservation         = "IngotReservation"
	kindRemediation         = "IngotRemediation"
	kindRemediationTemplate = "IngotRemediationTemplate"
)

// A Kind is one of Ingot's kinds, as its definition in the API server names it. Rules about
// all kinds go by these, so that none is forgotten.
type Kind struct {
	Name       string
	Namespaced bool
}

// notReconciled are the kinds that no controller reconciles, with the reason.
var notReconciled = map[string]string{
	kindHardware:            "no controller reconciles it; the agent API writes what an inspection found",
	kindNetwork:             "its controller only counts hosts and addresses in its status",
	kindClusterTemplate:     "no controller of Ingot reconciles it; Cluster API copies it",
	kindRemediationTemplate: "no controller of Ingot reconciles it; Cluster API copies it",
}

// beyondNamespaces are kinds that --namespace does not limit.
var beyondNamespaces = withReasons(notReconciled, map[string]string{
	kindImage: "it is cluster-scoped, and --namespace limits namespaces",
})

// ownerless are the kinds whose objects no Cluster owns.
var ownerless = map[string]string{
	kindHost:                "a host outlives Clusters; it moves by the label of its definition",
	kindHardware:            "it belongs to its host, and moves by the label of its definition",
	kindNetwork:             "it is cluster-scoped, and several Clusters use it; a move copies it",
	kindImage:               "it is cluster-scoped, and several Clusters use it; a move copies it",
	kindReservation:         "it is there before its Cluster; it moves by the label of its definition",
	kindRemediationTemplate: "MachineHealthChecks of several Clusters may name it; it moves by the label of its definition",
}

func withReasons(lists ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, list := range lists {
		maps.Copy(all, list)
	}
	return all
}

// kindsBut are the names of Ingot's kinds without those that a rule exempts and without
// others that another rule is about. A run that does not know its kinds proves nothing.
func (r *Run) kindsBut(p *problems, exempt map[string]string, others ...string) []string {
	var names []string
	for _, kind := range r.Kinds {
		if _, is := exempt[kind.Name]; !is && !slices.Contains(others, kind.Name) {
			names = append(names, kind.Name)
		}
	}
	p.unless(len(names) > 0, "the run does not say which kinds there are")
	for kind := range exempt {
		p.unless(len(names) == 0 || slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Name == kind }), "%s is exempt, and there is no such kind", kind)
	}
	return names
}

// globalKinds are those of Ingot's kinds that live in no namespace.
func (r *Run) globalKinds() []string {
	var names []string
	for _, kind := range r.Kinds {
		if !kind.Namespaced {
			names = append(names, kind.Name)
		}
	}
	return names
}
