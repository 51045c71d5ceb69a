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

// action of the events of this package: what the controller was doing.
const action = "RemediateMachine"

// Workloads reads workload clusters: Cluster API's ClusterCache does.
type Workloads interface {
	// GetReader returns a reader of the cluster, or an error while it is not connected.
	GetReader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error)
}

// Reconciler reconciles IngotRemediations. All exported fields but MaxAttempts, Timing and
// WatchFilterValue are needed.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: nothing is switched on a cached view (I2).
	Live      client.Reader
	Workloads Workloads
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// MaxAttempts is that of the hosts' policy; zero means its default.
	MaxAttempts int32
	// WatchFilterValue selects by label the IngotMachines whose remediations are looked after.
	WatchFilterValue string
	Timing           timing.Timing

	// since is when the first remediation was looked at: before that nobody here acted.
	begun sync.Once
	since time.Time
}

func (r *Reconciler) timing() timing.Timing { return r.Timing.WithDefaults() }

// Reconcile takes one step about one Machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	remediation := &infrav1.IngotRemediation{}
	if err := r.Client.Get(ctx, req.NamespacedName, remediation); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := remediation.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved {
		return ctrl.Result{}, nil // clusterctl moves the object: a power cycle stays in the claim (I9)
	}
	s, err := r.gather(ctx, remediation)
	if err != nil || s.another {
		return ctrl.Result{}, err
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, remediation, infrav1.RemediationFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	if told, err := r.unpauses(ctx, s); err != nil || told {
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
	r.tell(s, decision)
	return ctrl.Result{RequeueAfter: after}, r.save(ctx, s)
}

// scope is what one reconcile knows.
type scope struct {
	remediation *infrav1.IngotRemediation
	// base is the remediation as it was read.
	base *infrav1.IngotRemediation
	// another: the Machine is another manager's (M41).
	another bool
	// machine and cluster are nil where there are none.
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	obs     policy.Observation
	// gone: the finalizer is removed, and there is no status to write; stale: the host has
	// changed meanwhile, and there is nothing to tell.
	gone, stale bool
}

// unpauses says of a remediation that is no longer paused that nobody has acted on it
// until now, before the pause is forgotten.
func (r *Reconciler) unpauses(ctx context.Context, s *scope) (bool, error) {
	ready := conditions.Get(s.remediation, infrav1.ReadyCondition)
	if !conditions.IsTrue(s.remediation, infrav1.PausedCondition) || ready != nil && ready.Status == metav1.ConditionUnknown ||
		annotations.HasPaused(s.remediation) || s.cluster != nil && annotations.IsPaused(s.cluster, s.remediation) {
		return false, nil
	}
	s.base = s.remediation.DeepCopy()
	conditions.Set(s.remediation, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: infrav1.ReasonWaitingForNode,
		ObservedGeneration: s.remediation.Generation, LastTransitionTime: metav1.NewTime(s.obs.Now), Message: "the pause is over; the Node is given time first"})
	return true, r.save(ctx, s)
}

// justMade is how old a remediation may be that this process looks at first, for its
// deadlines to run from its creation.
const justMade = time.Minute

// activeSince counts no time before this process: what came to pass while none ran, the
// Machine's recovery too, may not be told yet.
func (r *Reconciler) activeSince(remediation *infrav1.IngotRemediation, now time.Time) time.Time {
	r.begun.Do(func() { r.since = now.Add(-justMade) })
	if since := activeSince(remediation, now); since.After(r.since) {
		return since
	}
	return r.since
}

// activeSince is since when somebody acts on the remediation: see
// policy.Observation. While a person works on the host, and after a pause, Ready
// is Unknown.
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

// tell puts what was decided into the status, and into an event when the reason is new.
func (r *Reconciler) tell(s *scope, decision policy.Decision) {
	status := metav1.ConditionFalse
	switch {
	case decision.Reason == infrav1.ReasonNodeHealthy:
		status = metav1.ConditionTrue
	case decision.Held:
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
			s.remediation.Status.Cycles, s.remediation.Status.LastCycleTime = new(cycle.Count), cycle.AskedAt
		}
	}
	if decision.Event != "" && before != decision.Reason {
		r.Recorder.Eventf(s.remediation, s.related(), decision.Event, decision.Reason, action, "%s", decision.Message)
	}
}

// save writes the status if it changed.
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

// isStale says whether a write lost against another: the reconcile starts over.
func isStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
