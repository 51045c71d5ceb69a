// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
	policy "github.com/ingot-metal/ingot/inventory/remediation"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotremediations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotremediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const action = "RemediateMachine" // of all events

// Workloads reads workload clusters. Cluster API's ClusterCache implements it.
type Workloads interface {
	// GetReader returns a reader of the cluster, or an error while it is not connected.
	GetReader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error)
}

// Reconciler reconciles IngotRemediations. All exported fields except MaxAttempts, Timing and
// WatchFilterValue are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: no power action follows from a cached version (I2).
	Live      client.Reader
	Workloads Workloads
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// MaxAttempts is the maximum of the hosts' policy; zero: the default.
	MaxAttempts int32
	// WatchFilterValue selects IngotMachines by label; empty: all.
	WatchFilterValue string
	Timing           timing.Timing

	// since is the time of the first reconcile in this process.
	start sync.Once
	since time.Time
}

func (r *Reconciler) timing() timing.Timing { return r.Timing.WithDefaults() }

// Reconcile executes at most one step for a Machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	remediation := &infrav1.IngotRemediation{}
	if err := r.Client.Get(ctx, req.NamespacedName, remediation); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := remediation.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved {
		return ctrl.Result{}, nil // clusterctl moves the object: a power cycle stays in the claim (I9)
	}
	s, err := r.gather(ctx, remediation)
	if err != nil || s.unselected {
		return ctrl.Result{}, err
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, remediation, infrav1.RemediationFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	if ended, err := r.showPauseEnd(ctx, s); err != nil || ended {
		return ctrl.Result{RequeueAfter: r.timing().Conflict}, err
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, s.cluster, remediation) // M43, M44
	if err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	s.base = remediation.DeepCopy()
	s.obs.ActiveSince = r.activeSince(remediation, s.obs.Now)
	decision := policy.Decide(remediation, s.obs)
	after, err := r.execute(ctx, s, decision)
	if err != nil || s.gone || s.stale {
		return ctrl.Result{RequeueAfter: after}, err
	}
	r.show(s, decision)
	return ctrl.Result{RequeueAfter: after}, r.save(ctx, s)
}

type scope struct {
	remediation *infrav1.IngotRemediation
	// base is the remediation as it was read.
	base *infrav1.IngotRemediation
	// unselected: another manager reconciles the Machine (M41).
	unselected bool
	// machine and cluster are nil if they do not exist.
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	obs     policy.Observation
	// gone: the finalizer is removed, and there is no status to write. stale: the host changed
	// since it was read, and there is nothing to show.
	gone, stale bool
}

// showPauseEnd sets Ready to Unknown before the Paused condition is cleared, so that deadlines do
// not count the time of the pause. It reports whether a pause ended.
func (r *Reconciler) showPauseEnd(ctx context.Context, s *scope) (bool, error) {
	ready := conditions.Get(s.remediation, infrav1.ReadyCondition)
	if !conditions.IsTrue(s.remediation, infrav1.PausedCondition) || ready != nil && ready.Status == metav1.ConditionUnknown ||
		annotations.HasPaused(s.remediation) || s.cluster != nil && annotations.IsPaused(s.cluster, s.remediation) {
		return false, nil
	}
	s.base = s.remediation.DeepCopy()
	conditions.Set(s.remediation, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: infrav1.ReasonWaitingForNode,
		ObservedGeneration: s.remediation.Generation, LastTransitionTime: metav1.NewTime(s.obs.Now), Message: "The pause has ended. Ingot gives the Node time to report."})
	return true, r.save(ctx, s)
}

// newRemediation is the maximum age of a remediation at the start of this process for its
// deadlines to count from its creation.
const newRemediation = time.Minute

// activeSince returns the start of the deadlines. It ignores time before the start of this process:
// events of that time, such as the Machine's recovery, may not be visible yet.
func (r *Reconciler) activeSince(remediation *infrav1.IngotRemediation, now time.Time) time.Time {
	r.start.Do(func() { r.since = now.Add(-newRemediation) })
	if since := activeSince(remediation, now); since.After(r.since) {
		return since
	}
	return r.since
}

// activeSince returns since when Ingot acts on the remediation (policy.Observation). Ready is
// Unknown while an operator works on the host, and after a pause.
func activeSince(remediation *infrav1.IngotRemediation, now time.Time) time.Time {
	since := remediation.CreationTimestamp.Time
	ready := conditions.Get(remediation, infrav1.ReadyCondition)
	switch {
	case ready == nil:
		return since
	case ready.Status == metav1.ConditionUnknown:
		return now
	case ready.LastTransitionTime.After(since):
		return ready.LastTransitionTime.Time
	}
	return since
}

// show writes the decision to the status, and records an event if the reason is new.
func (r *Reconciler) show(s *scope, decision policy.Decision) {
	status := metav1.ConditionFalse
	switch {
	case decision.Reason == infrav1.ReasonNodeHealthy:
		status = metav1.ConditionTrue
	case decision.IsPaused:
		status = metav1.ConditionUnknown
	}
	before := conditions.GetReason(s.remediation, infrav1.ReadyCondition)
	ready := metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: decision.Reason, Message: decision.Message}
	for _, c := range []metav1.Condition{ready, policy.Restarted(s.obs)} {
		c.ObservedGeneration, c.LastTransitionTime = s.remediation.Generation, metav1.NewTime(s.obs.Now)
		conditions.Set(s.remediation, c)
	}
	s.remediation.Status.HostRef, s.remediation.Status.Cycles, s.remediation.Status.LastCycleTime = nil, nil, metav1.Time{}
	if host := s.obs.Host; host != nil {
		s.remediation.Status.HostRef = &infrav1.LocalReference{Name: host.Name}
		if cycle := host.Spec.Claim.PowerCycle; cycle != nil {
			s.remediation.Status.Cycles, s.remediation.Status.LastCycleTime = new(cycle.Count), cycle.RequestTime
		}
	}
	if decision.Event != "" && before != decision.Reason {
		r.Recorder.Eventf(s.remediation, s.related(), decision.Event, decision.Reason, action, "%s", decision.Message)
	}
}

func (r *Reconciler) save(ctx context.Context, s *scope) error {
	s.remediation.Status.ObservedGeneration = s.base.Generation
	if equality.Semantic.DeepEqual(s.base.Status, s.remediation.Status) {
		return nil
	}
	patched := s.base.DeepCopy()
	patched.Status = s.remediation.Status
	if err := r.Client.Status().Patch(ctx, patched, client.MergeFrom(s.base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("status of the IngotRemediation: %w", err)
	}
	return nil
}

func isStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
