// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/move"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// agentStopTime is how long after the start of a pause an agent may still write: it asks
// every few seconds whether to continue, and is then told to stop.
const agentStopTime = 10 * time.Second

// preconditions reports whether the host may be acted on now: it is not paused, its state can
// be trusted, and no time in its status lies in the future. If not, retryAfter is when to
// check again.
func (r *Reconciler) preconditions(ctx context.Context, host *infrav1.IngotHost) (ok bool, retryAfter time.Duration, _ error) {
	cluster, err := r.clusterOf(ctx, host)
	if err != nil {
		return false, 0, err
	}
	isPaused, wait, err := r.reconcilePause(ctx, host, cluster)
	if err != nil {
		return false, 0, client.IgnoreNotFound(err)
	}
	if isPaused {
		r.unwatch(keyOf(host)) // another manager may use the BMC now (I10)
		r.memory.jobs.Cancel(keyOf(host))
		if wait == 0 {
			wait = r.Poll // the Cluster may be deleted without a reconcile
		}
	}
	if wait > 0 {
		return false, wait, nil
	}
	if r.Continuity != nil && !r.Continuity.Known() {
		return false, r.timing().Conflict, nil
	}
	if wrote, err := r.correctFutureTimes(ctx, host); err != nil || wrote {
		// The status is now newer than the one whose pause was checked (I10).
		return false, r.timing().Conflict, client.IgnoreNotFound(err)
	}
	return true, 0, nil
}

// isMovingAway reports whether clusterctl moves the host to another management cluster.
func isMovingAway(host *infrav1.IngotHost) bool {
	_, moved := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return moved
}

// hasMovedAway reports whether a host is no duplicate because clusterctl moved it. One in use
// still counts: it has not been deleted yet, or the annotation is not clusterctl's.
func hasMovedAway(host *infrav1.IngotHost) bool { return isMovingAway(host) && host.Spec.Claim == nil }

// clusterOf returns the Cluster of the host's claim, which pauses the host (I10); nil: none.
func (r *Reconciler) clusterOf(ctx context.Context, host *infrav1.IngotHost) (*clusterv1.Cluster, error) {
	if host.Spec.Claim == nil {
		return nil, nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, host.Namespace, host.Spec.Claim.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cluster %s of the claim: %w", host.Spec.Claim.ClusterName, err)
	}
	return cluster, nil
}

// reconcilePause shows whether the host is paused (I10). For a move, it unblocks clusterctl
// once nothing of Ingot is under way. after is when to reconcile again; 0 leaves that to the
// caller.
func (r *Reconciler) reconcilePause(ctx context.Context, host *infrav1.IngotHost, cluster *clusterv1.Cluster) (isPaused bool, after time.Duration, _ error) {
	now := pausedCondition(host, cluster)
	isPaused = now.Status == metav1.ConditionTrue
	if was := conditions.Get(host, infrav1.PausedCondition); was == nil || !isSamePause(*was, now) {
		if err := r.savePause(ctx, host, now); err != nil {
			return isPaused, 0, err
		}
		if !isPaused { // changes of status do not trigger a reconcile
			return false, r.timing().Conflict, nil
		}
	}
	if !isPaused {
		return false, 0, nil
	}
	after, err := r.unblockMove(ctx, host)
	if isRetry(err) {
		return true, r.timing().Conflict, nil
	}
	return true, after, err
}

// pausedCondition shows why the host is paused, and how that ends.
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

// isSamePause reports whether there is nothing to write. A new generation is written with
// the rest of the status, and during a pause at once: it shows that a change of the spec was
// seen and is not acted on.
func isSamePause(was, now metav1.Condition) bool {
	if was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message {
		return false
	}
	return now.Status == metav1.ConditionFalse || was.ObservedGeneration == now.ObservedGeneration
}

// savePause writes the condition and, at the start of a pause, the phase, which a host that
// just arrived by a move does not have. At the end of a pause the deadline of its agent
// starts again: the agent was silent because it was told to stop.
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
	ctrl.LoggerFrom(ctx).Info("Changing the pause of the host", "paused", now.Status, "reason", now.Reason)
	return r.Client.Status().Patch(ctx, host, client.MergeFrom(base))
}

// unblockMove removes clusterctl's block-move annotation from a host that is paused for a
// move. That this reconcile runs shows that no call to the BMC is under way, and the
// condition shows that none will start. An agent that writes gets time to stop. The
// optimistic lock keeps the annotation on a host whose pause was lifted meanwhile.
func (r *Reconciler) unblockMove(ctx context.Context, host *infrav1.IngotHost) (after time.Duration, _ error) {
	since, moving := host.Annotations[infrav1.MovePausedAnnotation]
	if _, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]; !moving || !blocked {
		return 0, nil
	}
	if r.memory.jobs.Cancel(keyOf(host)) { // a push runs next to the reconcile
		return r.timing().Conflict, nil
	}
	if wait := r.agentMayWrite(host, since); wait > 0 {
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

// agentMayWrite is how long an agent of the host may still write; 0: there is none, or it
// had time to stop.
func (r *Reconciler) agentMayWrite(host *infrav1.IngotHost, since string) time.Duration {
	order := host.Spec.Order
	if order == nil || order.AgentKey == "" || order.Result != nil || order.Kind == infrav1.OrderInspect {
		return 0
	}
	start, err := time.Parse(time.RFC3339, since)
	if err != nil { // set by hand
		start = conditions.Get(host, infrav1.PausedCondition).LastTransitionTime.Time
	}
	return max(start.Add(agentStopTime).Sub(r.Clock.Now()), 0)
}

// mustBeCurrent reads the host live: Ingot does nothing to a server on an old view (I2).
func (r *Reconciler) mustBeCurrent(ctx context.Context, host *infrav1.IngotHost) error {
	live := &infrav1.IngotHost{}
	if err := r.Live.Get(ctx, keyOf(host), live); err != nil {
		if apierrors.IsNotFound(err) {
			return errStale
		}
		return fmt.Errorf("live read before a switch: %w", err)
	}
	if !isSameForSwitch(live, host) {
		return errStale
	}
	return r.mustNotBePaused(ctx, host)
}

// mustNotBePaused checks the Clusters. From the moment that they are paused Ingot calls no
// BMC (I10), though the hosts of a large namespace get their own pause over some seconds.
// The Cluster of a claim is read live; for a free host all Clusters are read from the cache.
// A pause of the host itself is in its annotations.
func (r *Reconciler) mustNotBePaused(ctx context.Context, host *infrav1.IngotHost) error {
	if host.Spec.Claim == nil {
		clusters := &clusterv1.ClusterList{}
		if err := r.Client.List(ctx, clusters, client.InNamespace(host.Namespace)); err != nil {
			return fmt.Errorf("clusters of the namespace before a switch: %w", err)
		}
		if move.StateOf(clusters.Items) == move.Standstill {
			return errStale
		}
		return nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("live read of the Cluster before a switch: %w", err)
	}
	if ptr.Deref(cluster.Spec.Paused, false) {
		return errStale
	}
	return nil
}

// isSameForSwitch reports whether two versions of a host are the same in all that a power
// action depends on: spec, deletion, annotations (commands and pause, I10), and when it was
// last switched. The progress of the agent does not count.
func isSameForSwitch(live, host *infrav1.IngotHost) bool {
	return live.UID == host.UID && live.Generation == host.Generation &&
		live.DeletionTimestamp.IsZero() == host.DeletionTimestamp.IsZero() &&
		maps.Equal(live.Annotations, host.Annotations) &&
		live.Status.LastResetTime.Equal(&host.Status.LastResetTime) &&
		live.Status.SoftPowerOffTime.Equal(&host.Status.SoftPowerOffTime)
}

// noticeRestore notices that the API server was restored while this process ran.
func (r *Reconciler) noticeRestore(ctx context.Context, host *infrav1.IngotHost) {
	if back := r.memory.wentBack(host); back && r.Continuity != nil {
		ctrl.LoggerFrom(ctx).Info("Confirming the state of all hosts: this host went back to an earlier generation, as after a restored backup",
			"generation", host.Generation)
		r.Continuity.Break()
	}
}

// observeContinuity notes since when the host's state can be trusted, and looks for its Node
// if that matters.
func (r *Reconciler) observeContinuity(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	if r.Continuity == nil {
		return
	}
	seen.LedgerSince = r.Continuity.Since()
	if r.Nodes == nil || !lifecycle.NodeMatters(host, seen.Observation) {
		return
	}
	heard, err := r.Nodes.Heard(ctx, host)
	if err != nil { // the host waits, as if there were no Node
		ctrl.LoggerFrom(ctx).Error(err, "Could not look for the Node of a claim")
	}
	seen.NodeHeard = heard
}

// maxDrift is how far the wall clock may move against the monotonic clock between two looks.
// A slewed clock moves by milliseconds; one that is set, or a virtual machine that slept, by
// more. It is also how far the clocks of two managers may be apart.
const maxDrift = 10 * time.Second

// clockStart is when the reconciler looked at its first host: after the manager was elected,
// which may be long after its start. Before that, agents could not report. It starts again
// when the clock is set, since the times in status are by the old clock. After a restart
// agents get their deadline again.
type clockStart struct {
	at, lastLook time.Time
}

// since returns the start, which is now at the first call.
func (c *clockStart) since(now time.Time) time.Time {
	return c.withDrift(now, now.Round(0).Sub(c.lastLook.Round(0))-now.Sub(c.lastLook))
}

// withDrift is since, where drift is how much further the wall clock moved than the
// monotonic clock since the last look.
func (c *clockStart) withDrift(now time.Time, drift time.Duration) time.Time {
	if c.at.IsZero() || drift.Abs() > maxDrift {
		c.at = now
	}
	c.lastLook = now
	return c.at
}

// correctFutureTimes sets times of status that lie in the future, since the clock was set
// back, to now. Otherwise the host would not be switched, and its agent not be given up,
// until the clock gets there. It reports whether it wrote any.
func (r *Reconciler) correctFutureTimes(ctx context.Context, host *infrav1.IngotHost) (wrote bool, err error) {
	now, base := metav1.NewTime(r.Clock.Now()), host.DeepCopy()
	times := []*metav1.Time{&host.Status.LastResetTime, &host.Status.SoftPowerOffTime}
	if host.Status.Operation != nil {
		times = append(times, &host.Status.Operation.LastContactTime)
	}
	for _, t := range times {
		if t.After(now.Add(maxDrift)) {
			*t, wrote = now, true
		}
	}
	if !wrote {
		return false, nil
	}
	if err := r.Client.Status().Patch(ctx, host, client.MergeFrom(base)); err != nil {
		return false, fmt.Errorf("times of %s that lie ahead: %w", keyOf(host), err)
	}
	return true, nil
}
