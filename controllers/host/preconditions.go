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

// agentStopTime is how long an agent may still write after the start of a pause: it polls every
// few seconds and is then told to stop.
const agentStopTime = 10 * time.Second

// preconditions reports whether Ingot may act on the host now: it is not paused, its state can
// be trusted, and no time in its status is in the future. If not, it returns when to check
// again.
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
			wait = r.Poll // the deletion of the Cluster does not trigger a reconcile
		}
	}
	if wait > 0 {
		return false, wait, nil
	}
	if r.Continuity != nil && !r.Continuity.Known() {
		return false, r.timing().Conflict, nil
	}
	if wrote, err := r.correctFutureTimes(ctx, host); err != nil || wrote {
		// The status is newer than the one whose pause was checked (I10).
		return false, r.timing().Conflict, client.IgnoreNotFound(err)
	}
	return true, 0, nil
}

func isMovingAway(host *infrav1.IngotHost) bool {
	_, moved := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return moved
}

// hasMovedAway reports whether a host cannot be a duplicate because clusterctl moved it. A
// claimed host still counts: it is not deleted yet, or the annotation is not clusterctl's.
func hasMovedAway(host *infrav1.IngotHost) bool { return isMovingAway(host) && host.Spec.Claim == nil }

// clusterOf returns the Cluster of the host's claim, which can pause the host (I10); nil: none.
func (r *Reconciler) clusterOf(ctx context.Context, host *infrav1.IngotHost) (*clusterv1.Cluster, error) {
	if host.Spec.Claim == nil {
		return nil, nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, host.Namespace, host.Spec.Claim.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Cluster %s of the claim: %w", host.Spec.Claim.ClusterName, err)
	}
	return cluster, nil
}

// reconcilePause shows whether the host is paused (I10). During a move it unblocks clusterctl
// once no action of Ingot is in progress. after is when to reconcile again; 0: the caller
// decides.
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

// pausedCondition shows why the host is paused and how the pause ends.
func pausedCondition(host *infrav1.IngotHost, cluster *clusterv1.Cluster) metav1.Condition {
	out := metav1.Condition{
		Type: infrav1.PausedCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonNotPaused, ObservedGeneration: host.Generation,
	}
	var why []string
	if _, moving := host.Annotations[infrav1.MovePausedAnnotation]; moving {
		out.Reason = infrav1.ReasonMovePaused
		why = append(why, "All Clusters here were paused (clusterctl move). Ingot resumes when one is unpaused and the claimed machine exists. "+
			"To resume now, remove annotation "+infrav1.MovePausedAnnotation)
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
		why = append(why, "the host is deleted when the pause ends")
	}
	out.Status, out.Message = metav1.ConditionTrue, strings.Join(why, ", ")
	if out.Reason != infrav1.ReasonMovePaused {
		out.Reason = infrav1.ReasonPaused
	}
	return out
}

// isSamePause reports whether the condition need not be written now. During a pause a new
// generation is written at once, to show that Ingot saw a change of the spec and does not
// act on it.
func isSamePause(was, now metav1.Condition) bool {
	if was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message {
		return false
	}
	return now.Status == metav1.ConditionFalse || was.ObservedGeneration == now.ObservedGeneration
}

// savePause writes the condition and, at the start of a pause, the phase, which a host that
// arrived by a move does not have yet. The end of a pause restarts the deadline of the
// agent, which got an order to stop.
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
// move. No BMC call is in progress while this reconcile runs, and the Paused condition
// prevents new ones. An agent that writes gets time to stop. The optimistic lock keeps the
// annotation if the pause ended in between.
func (r *Reconciler) unblockMove(ctx context.Context, host *infrav1.IngotHost) (after time.Duration, _ error) {
	since, moving := host.Annotations[infrav1.MovePausedAnnotation]
	if _, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]; !moving || !blocked {
		return 0, nil
	}
	if r.memory.jobs.Cancel(keyOf(host)) { // an upload runs in the background
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

// agentMayWrite returns how long an agent of the host may still write; 0: it has stopped, or
// there is none.
func (r *Reconciler) agentMayWrite(host *infrav1.IngotHost, since string) time.Duration {
	order := host.Spec.Order
	if order == nil || order.AgentKey == "" || order.Result != nil || order.Kind == infrav1.OrderInspect {
		return 0
	}
	start, err := time.Parse(time.RFC3339, since)
	if err != nil { // the annotation was set by hand
		start = conditions.Get(host, infrav1.PausedCondition).LastTransitionTime.Time
	}
	return max(start.Add(agentStopTime).Sub(r.Clock.Now()), 0)
}

// mustBeCurrent returns errStale if a live read shows that the host changed (I2).
func (r *Reconciler) mustBeCurrent(ctx context.Context, host *infrav1.IngotHost) error {
	live := &infrav1.IngotHost{}
	if err := r.Live.Get(ctx, keyOf(host), live); err != nil {
		if apierrors.IsNotFound(err) {
			return errStale
		}
		return fmt.Errorf("read host live before a power action: %w", err)
	}
	if !isSameForPowerAction(live, host) {
		return errStale
	}
	return r.mustNotBePaused(ctx, host)
}

// mustNotBePaused returns errStale if the Clusters are paused. Ingot then calls no BMC (I10),
// although the hosts of a large namespace get their own pause seconds later. The Cluster of a
// claim is read live; for a free host, all Clusters are read from the cache.
func (r *Reconciler) mustNotBePaused(ctx context.Context, host *infrav1.IngotHost) error {
	if host.Spec.Claim == nil {
		clusters := &clusterv1.ClusterList{}
		if err := r.Client.List(ctx, clusters, client.InNamespace(host.Namespace)); err != nil {
			return fmt.Errorf("list Clusters before a power action: %w", err)
		}
		if move.StateOf(clusters.Items) == move.AllPaused {
			return errStale
		}
		return nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Cluster live before a power action: %w", err)
	}
	if ptr.Deref(cluster.Spec.Paused, false) {
		return errStale
	}
	return nil
}

// isSameForPowerAction reports whether two versions of a host have the same spec, deletion,
// annotations (commands and pause, I10) and times of the last power actions. The progress of
// the agent does not matter.
func isSameForPowerAction(live, host *infrav1.IngotHost) bool {
	return live.UID == host.UID && live.Generation == host.Generation &&
		live.DeletionTimestamp.IsZero() == host.DeletionTimestamp.IsZero() &&
		maps.Equal(live.Annotations, host.Annotations) &&
		live.Status.LastResetTime.Equal(&host.Status.LastResetTime) &&
		live.Status.SoftPowerOffTime.Equal(&host.Status.SoftPowerOffTime)
}

// noticeRestore breaks the continuity if the API server was restored while this process ran.
func (r *Reconciler) noticeRestore(ctx context.Context, host *infrav1.IngotHost) {
	if restored := r.memory.isRestored(host); restored && r.Continuity != nil {
		ctrl.LoggerFrom(ctx).Info("Confirming the state of all hosts: the generation of this host decreased, as after a restored backup",
			"generation", host.Generation)
		r.Continuity.Break()
	}
}

// observeContinuity sets since when the host's state can be trusted, and looks for its Node if
// the decision needs it.
func (r *Reconciler) observeContinuity(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	if r.Continuity == nil {
		return
	}
	seen.LedgerSince = r.Continuity.Since()
	if r.Nodes == nil || !lifecycle.NeedsNode(host, seen.Observation) {
		return
	}
	heard, err := r.Nodes.LastReport(ctx, host)
	if err != nil { // the host waits as if it had no Node
		ctrl.LoggerFrom(ctx).Error(err, "Failed to find the Node of a claim")
	}
	seen.NodeHeard = heard
}

// maxDrift is the largest difference between the progress of wall clock and monotonic clock in
// two successive reconciles. A slewed clock differs by milliseconds; a clock that was set, or
// a suspended virtual machine, by more. It also bounds the offset between two managers.
const maxDrift = 10 * time.Second

// clockStart is when the reconciler observed its first host, which may be long after the
// manager's start. Before that, agents could not report. It restarts when the clock is set,
// since the times in status are by the old clock.
type clockStart struct {
	at, lastLook time.Time
}

// since returns the start, which is now at the first call.
func (c *clockStart) since(now time.Time) time.Time {
	return c.withDrift(now, now.Round(0).Sub(c.lastLook.Round(0))-now.Sub(c.lastLook))
}

// withDrift implements since. drift is the progress of the wall clock minus that of the
// monotonic clock since the last call.
func (c *clockStart) withDrift(now time.Time, drift time.Duration) time.Time {
	if c.at.IsZero() || drift.Abs() > maxDrift {
		c.at = now
	}
	c.lastLook = now
	return c.at
}

// correctFutureTimes sets times of status that are in the future to now. After the clock was
// set back, they would delay power actions and the agent's deadline. It reports whether it
// wrote the status.
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
		return false, fmt.Errorf("correct future times of %s: %w", keyOf(host), err)
	}
	return true, nil
}
