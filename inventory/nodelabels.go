// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// NodeLabels returns the labels that a Node gets from its host: the host's present rack, and the
// labels that the cluster selects. The failure domain of the claim does not change (I11), but
// schedulers need the real place of the server.
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

// controlPlaneRole reports whether the label marks control planes for Cluster API and others. The
// inventory must not set or remove it.
func controlPlaneRole(key string) bool {
	return key == "node-role.kubernetes.io/control-plane" || key == "node-role.kubernetes.io/master"
}

// chooses reports whether an entry of spec.nodeLabels selects the key: it is the key, or its
// domain with /*.
func chooses(chosen, key string) bool {
	if domain, all := strings.CutSuffix(chosen, "/*"); all {
		of, _, has := strings.Cut(key, "/")
		return has && of == domain
	}
	return chosen == key
}

// LabelledNode has the labels of a Node and their writers.
type LabelledNode struct {
	Labels map[string]string
	// Written has the keys that Ingot wrote.
	Written []string
	// Synced has the keys that Cluster API copies from the Machine. It restores its values, so
	// Ingot does not write them.
	Synced []string
}

// LabelChange is the change that a Node needs to have the labels of its host.
type LabelChange struct {
	// Set has labels to set, and Remove keys to remove.
	Set    map[string]string
	Remove []string
	// Written has the sorted keys that Ingot wrote, after the change. The Node stores them, so
	// that Ingot removes only its own labels. Relist: the stored keys differ.
	Written []string
	Relist  bool
	// ZoneKept: the zone differs from the host's rack, and Ingot did not write it.
	ZoneKept bool
}

// IsEmpty reports whether there is nothing to write.
func (c LabelChange) IsEmpty() bool { return len(c.Set) == 0 && len(c.Remove) == 0 && !c.Relist }

// CompareLabels returns the change from a Node's labels to the wanted ones. A label that already
// has the wanted value keeps its writer. A zone of another writer stays, because volumes may
// depend on it.
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
