// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// NodeLabels are the labels that the host of a machine gives its Node: its rack, as it
// is now, and what the cluster chose of its labels. The rack of the claim is frozen
// (I11); where the server stands is what schedulers have to know.
func NodeLabels(host *infrav1.IngotHost, cluster *infrav1.IngotCluster) map[string]string {
	labels := map[string]string{}
	for key, value := range host.Labels {
		if !controlPlaneRole(key) && slices.ContainsFunc(cluster.Spec.NodeLabels, func(chosen string) bool { return chooses(chosen, key) }) {
			labels[key] = value
		}
	}
	if rack := host.Labels[FailureDomainLabel(cluster)]; rack != "" {
		labels[corev1.LabelTopologyZone] = rack
	}
	return labels
}

// controlPlaneRole: by these labels Cluster API and others find control planes, so that no
// note in the inventory may put one on a Node, or take it away.
func controlPlaneRole(key string) bool {
	return key == "node-role.kubernetes.io/control-plane" || key == "node-role.kubernetes.io/master"
}

// chooses says whether an entry of spec.nodeLabels means the key: it is the key, or its
// domain with /*.
func chooses(chosen, key string) bool {
	if domain, all := strings.CutSuffix(chosen, "/*"); all {
		of, _, has := strings.Cut(key, "/")
		return has && of == domain
	}
	return chosen == key
}

// LabelChange is what a Node lacks of the labels of its host.
type LabelChange struct {
	// Set are labels to be set, Remove those to be taken away.
	Set    map[string]string
	Remove []string
	// Written are the keys that Ingot has written once that is done, sorted: what has to
	// be remembered on the Node, so that a label which the host loses is taken away, and
	// no label that somebody else set.
	Written []string
}

// Empty says that there is nothing to do.
func (c LabelChange) Empty() bool { return len(c.Set) == 0 && len(c.Remove) == 0 }

// CompareLabels says what to change of a Node's labels, given what it should have and
// the keys that Ingot wrote before. A label that somebody else has set as it should be
// stays theirs.
func CompareLabels(wanted, found map[string]string, written []string) LabelChange {
	change := LabelChange{Set: map[string]string{}}
	for key, value := range wanted {
		if has, there := found[key]; !there || has != value {
			change.Set[key] = value
			change.Written = append(change.Written, key)
		} else if slices.Contains(written, key) {
			change.Written = append(change.Written, key)
		}
	}
	for _, key := range written {
		_, there := found[key]
		if _, stays := wanted[key]; !stays && there {
			change.Remove = append(change.Remove, key)
		}
	}
	slices.Sort(change.Written)
	slices.Sort(change.Remove)
	return change
}

// System is what a Node and a machine tell of the server that they are.
type System struct {
	// UUID as firmware tells it.
	UUID string
	// Name of the host in the network, and Addresses.
	Name      string
	Addresses []string
}

// SameSystem says whether a Node without a provider ID is the machine: by a UUID that
// tells one server from another, and that no other of the inventory's uuids is like,
// where the name or an address agrees as well (design §6).
func SameSystem(machine, node System, uuids []string) bool {
	if likeUUIDs(machine.UUID, node.UUID) != same {
		return false
	}
	alike := 0
	for _, uuid := range uuids {
		if likeUUIDs(uuid, node.UUID) == same {
			alike++
		}
	}
	if alike > 1 {
		return false
	}
	return machine.Name != "" && machine.Name == node.Name ||
		slices.ContainsFunc(node.Addresses, func(a string) bool { return a != "" && slices.Contains(machine.Addresses, a) })
}
