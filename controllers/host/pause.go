// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// agentStops is how long after the beginning of a pause an agent may still be
// writing: it asks every few seconds whether to go on, and is then told to stop.
const agentStops = 10 * time.Second

// pause says whether nobody may act on the host now (I10), shows it, and, for a
// move, lets clusterctl go on once nothing of ours is under way any more. after is
// when to come again; 0 leaves that to the caller.
func (r *Reconciler) pause(ctx context.Context, host *infrav1.IngotHost, cluster *clusterv1.Cluster) (isPaused bool, after time.Duration, _ error) {
	now := pausedCondition(host, cluster)
	isPaused = now.Status == metav1.ConditionTrue
	if was := conditions.Get(host, infrav1.PausedCondition); was == nil || !sameCondition(*was, now) {
		if err := r.savePause(ctx, host, now); err != nil {
			return isPaused, 0, err
		}
		if !isPaused { // the watch holds changes of status back
			return false, r.waits().Soon, nil
		}
	}
	if !isPaused {
		return false, 0, nil
	}
	after, err := r.unblockMove(ctx, host)
	if isRetry(err) {
		return true, r.waits().Soon, nil
	}
	return true, after, err
}

// pausedCondition says why nobody acts on the host, and how that ends.
func pausedCondition(host *infrav1.IngotHost, cluster *clusterv1.Cluster) metav1.Condition {
	out := metav1.Condition{
		Type: infrav1.PausedCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonNotPaused, ObservedGeneration: host.Generation,
	}
	var why []string
	if _, moving := host.Annotations[infrav1.MovePausedAnnotation]; moving {
		out.Reason = infrav1.ReasonMovePaused
		why = append(why, "every Cluster of the namespace was paused, as by clusterctl move: Ingot does nothing to the host until one of them is unpaused and, where the host is claimed, its IngotMachine is here and names it; a host that arrived with work to do rests some minutes first (--move-rest); if that will never be, remove the annotation "+infrav1.MovePausedAnnotation)
	}
	if cluster != nil && ptr.Deref(cluster.Spec.Paused, false) {
		why = append(why, "Cluster spec.paused is set to true")
	}
	if annotations.HasPaused(host) {
		why = append(why, "IngotHost has the cluster.x-k8s.io/paused annotation")
	}
	if len(why) == 0 {
		return out
	}
	if !host.DeletionTimestamp.IsZero() {
		why = append(why, "the deletion of the host waits until the pause ends")
	}
	out.Status, out.Message = metav1.ConditionTrue, strings.Join(why, ", ")
	if out.Reason != infrav1.ReasonMovePaused {
		out.Reason = infrav1.ReasonPaused
	}
	return out
}

// sameCondition says whether there is nothing to write. A generation that went on
// is told with the rest of the status, and during a pause at once: it shows that a
// change of the spec was seen and is not acted on.
func sameCondition(was, now metav1.Condition) bool {
	if was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message {
		return false
	}
	return now.Status == metav1.ConditionFalse || was.ObservedGeneration == now.ObservedGeneration
}

// savePause writes the condition, and with the beginning of a pause the phase, which
// a host that has just arrived by a move does not have. With the end of a pause the deadline of an agent
// that waited it out starts again: it was silent because it was told to be.
func (r *Reconciler) savePause(ctx context.Context, host *infrav1.IngotHost, now metav1.Condition) error {
	base := host.DeepCopy()
	ended := now.Status == metav1.ConditionFalse && conditions.IsTrue(host, infrav1.PausedCondition)
	if ended && host.Status.Operation != nil {
		host.Status.Operation.LastContactTime = metav1.NewTime(r.Clock.Now())
	}
	now.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	conditions.Set(host, now)
	if now.Status == metav1.ConditionTrue {
		host.Status.Phase = lifecycle.PhaseOf(host)
	}
	ctrl.LoggerFrom(ctx).Info("Pause of the host changes", "paused", now.Status, "reason", now.Reason)
	return r.Client.Status().Patch(ctx, host, client.MergeFrom(base))
}

// unblockMove takes block-move away from a host that stands still for a move. That
// this very reconcile runs shows that no call of its BMC is under way, and the
// condition that none will start; an agent at work is given the time to hear of it.
// The optimistic lock keeps it on a host whose pause was lifted meanwhile.
func (r *Reconciler) unblockMove(ctx context.Context, host *infrav1.IngotHost) (after time.Duration, _ error) {
	since, moving := host.Annotations[infrav1.MovePausedAnnotation]
	if _, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]; !moving || !blocked {
		return 0, nil
	}
	if r.works.Cancel(keyOf(host)) { // a call that this reconcile does not make
		return r.waits().Soon, nil
	}
	if wait := r.agentWrites(host, since); wait > 0 {
		return wait, nil
	}
	next := host.DeepCopy()
	delete(next.Annotations, clusterctlv1.BlockMoveAnnotation)
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return 0, errStale
	}
	return 0, client.IgnoreNotFound(err)
}

// agentWrites is how long an agent of the host may still be writing: 0 when there
// is none, or it has had its time.
func (r *Reconciler) agentWrites(host *infrav1.IngotHost, since string) time.Duration {
	order := host.Spec.Order
	if order == nil || order.AgentKey == "" || order.Result != nil || order.Kind == infrav1.OrderInspect {
		return 0
	}
	start, err := time.Parse(time.RFC3339, since)
	if err != nil { // set by hand
		start = conditions.Get(host, infrav1.PausedCondition).LastTransitionTime.Time
	}
	return max(start.Add(agentStops).Sub(r.Clock.Now()), 0)
}
