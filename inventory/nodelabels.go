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

// LabelledNode is what a Node shows of its labels.
type LabelledNode struct {
	Labels map[string]string
	// Written are the keys that Ingot has written.
	Written []string
	// Synced are the keys that Cluster API takes from the Machine. It puts its value back
	// whenever another stands there, as Ingot does, so that they are its alone.
	Synced []string
}

// LabelChange is what a Node lacks of the labels of its host.
type LabelChange struct {
	// Set are labels to be set, Remove those to be taken away.
	Set    map[string]string
	Remove []string
	// Written are the keys that Ingot has written once that is done, sorted: what has to
	// be remembered on the Node, so that a label which the host loses is taken away, and
	// no label that somebody else set. Relist: the Node remembers others.
	Written []string
	Relist  bool
	// ZoneKept: the zone is not the host's rack, and somebody else wrote it.
	ZoneKept bool
}

// Empty says that there is nothing to write.
func (c LabelChange) Empty() bool { return len(c.Set) == 0 && len(c.Remove) == 0 && !c.Relist }

// CompareLabels says what to change of a Node's labels, given what it should have. A
// label that somebody else has set as it should be stays theirs, and so does a zone,
// whatever it is: volumes may be bound to it.
func CompareLabels(wanted map[string]string, node LabelledNode) LabelChange {
	change := LabelChange{Set: map[string]string{}}
	for key, value := range wanted {
		has, there := node.Labels[key]
		ours := slices.Contains(node.Written, key)
		switch {
		case slices.Contains(node.Synced, key):
		case there && has == value:
			if ours {
				change.Written = append(change.Written, key)
			}
		case there && !ours && key == corev1.LabelTopologyZone:
			change.ZoneKept = true
		default:
			change.Set[key] = value
			change.Written = append(change.Written, key)
		}
	}
	for _, key := range node.Written {
		_, there := node.Labels[key]
		if _, stays := wanted[key]; !stays && there && !slices.Contains(node.Synced, key) {
			change.Remove = append(change.Remove, key)
		}
	}
	slices.Sort(change.Written)
	slices.Sort(change.Remove)
	change.Relist = !slices.Equal(change.Written, slices.Sorted(slices.Values(node.Written)))
	return change
}

// FailureDomainLabel returns the label whose values are the cluster's failure domains.
func FailureDomainLabel(cluster *infrav1.IngotCluster) string {
	if cluster == nil || cluster.Spec.FailureDomainLabel == "" {
		return infrav1.RackLabel
	}
	return cluster.Spec.FailureDomainLabel
}
