// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"maps"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// State is the state of the Clusters of a namespace.
type State string

const (
	// Empty means that there is no Cluster. Pauses stay as they are, since hosts may arrive before
	// their Clusters. Only a pause that Ingot set here, for Clusters that are gone, ends when a
	// user deletes the host (clusterctl annotates the objects that it deletes).
	Empty State = "Empty"
	// Active means that a Cluster is not paused.
	Active State = "Active"
	// AllPaused means that every Cluster is paused, as by clusterctl move.
	AllPaused State = "AllPaused"
)

// StateOf returns the state of the Clusters of one namespace.
func StateOf(clusters []clusterv1.Cluster) State {
	for i := range clusters {
		if !ptr.Deref(clusters[i].Spec.Paused, false) {
			return Active
		}
	}
	if len(clusters) == 0 {
		return Empty
	}
	return AllPaused
}

// Change is a change of a host's annotations; the zero value: none.
type Change struct {
	// Pause adds the pause of a move, Lift removes it.
	Pause, Lift bool
	// Block adds block-move, Unblock removes it.
	Block, Unblock bool
}

// Decide returns the change that a host needs in a namespace of that state. ready means that the
// pause may end: the claim's machine exists if it is needed (needsMachine), and the rest after
// an arrival is over.
//
// A host that is paused for a move gets no block-move. So the two annotations exclude each other,
// except from the pause until the host controller removes block-move, and the two controllers
// do not undo each other's writes.
func Decide(host *infrav1.IngotHost, state State, ready bool) Change {
	_, paused := host.Annotations[infrav1.MovePausedAnnotation]
	_, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]
	var change Change
	switch {
	case isLeaving(host): // the host belongs to another management cluster
	case state == AllPaused:
		change.Pause = !paused
	case state == Active:
		change.Lift = paused && ready
		change.Block = !blocked && (!paused || change.Lift)
	case state == Empty:
		change.Lift = ready && isPausedHere(host) && !host.DeletionTimestamp.IsZero()
		change.Unblock = blocked
	}
	return change
}

func isLeaving(host *infrav1.IngotHost) bool {
	_, leaving := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return leaving
}

// needsMachine reports whether the pause may end only with the claim's machine. A claim that is
// being released does not need it: the machine is deleted as soon as the host is fenced.
func needsMachine(host *infrav1.IngotHost) bool {
	return host.Spec.Claim != nil && host.Spec.Claim.State != infrav1.ClaimReleasing
}

// Apply returns the host's annotations after the change.
func (c Change) Apply(annotations map[string]string, now time.Time) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	if c.Pause {
		out[infrav1.MovePausedAnnotation] = now.UTC().Format(time.RFC3339)
	}
	if c.Lift {
		delete(out, infrav1.MovePausedAnnotation)
	}
	if c.Block {
		out[clusterctlv1.BlockMoveAnnotation] = ""
	}
	if c.Unblock {
		delete(out, clusterctlv1.BlockMoveAnnotation)
	}
	return out
}
