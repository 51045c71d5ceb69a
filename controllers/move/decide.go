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

// State is what the Clusters of a namespace say.
type State string

// The states.
const (
	// Empty: there is no Cluster. Nobody is being moved away that could be told from
	// hosts that arrive before their Clusters: pauses stay as they are. Only the pause that
	// Ingot set here, for Clusters that are gone, ends when a user deletes the host
	// (clusterctl marks what it deletes).
	Empty State = "Empty"
	// Active: a Cluster is not paused.
	Active State = "Active"
	// Standstill: every Cluster is paused, as by clusterctl move.
	Standstill State = "Standstill"
)

// StateOf sums up the Clusters of one namespace.
func StateOf(clusters []clusterv1.Cluster) State {
	for i := range clusters {
		if !ptr.Deref(clusters[i].Spec.Paused, false) {
			return Active
		}
	}
	if len(clusters) == 0 {
		return Empty
	}
	return Standstill
}

// Change is what is to be written to a host; the zero value: nothing.
type Change struct {
	// Pause sets the pause of a move, Lift takes it away.
	Pause, Lift bool
	// Block sets block-move, Unblock takes it away.
	Block, Unblock bool
}

// IsZero says whether there is nothing to write.
func (c Change) IsZero() bool { return c == Change{} }

// Decide says what a host needs in a namespace of that state. ready says that a pause
// may be lifted: the claim, if the host has one that needs it, names a machine that is
// here (see needsMachine), and a host that has arrived has rested.
//
// While a host is paused for a move it gets no block-move: there is nothing to wait
// for. So block-move and the pause are exclusive but for the moment between the
// pause and the standstill, which the host's controller ends, and the two never
// write against each other.
func Decide(host *infrav1.IngotHost, state State, ready bool) Change {
	_, paused := host.Annotations[infrav1.MovePausedAnnotation]
	_, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]
	var change Change
	switch {
	case isLeaving(host): // clusterctl has replaced all annotations: the host is another cluster's
	case state == Standstill:
		change.Pause = !paused
	case state == Active:
		change.Lift = paused && ready
		change.Block = !blocked && (!paused || change.Lift)
	case state == Empty:
		change.Lift = ready && setHere(host) && !host.DeletionTimestamp.IsZero()
		change.Unblock = blocked
	}
	return change
}

// isLeaving says whether clusterctl is taking the host away from this cluster.
func isLeaving(host *infrav1.IngotHost) bool {
	_, leaving := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return leaving
}

// needsMachine says whether the host's claim has to resolve before the host may be
// acted on. A claim that is being released does not: its machine leaves as soon as
// the host is fenced.
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
