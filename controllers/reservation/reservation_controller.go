// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotreservations,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotreservations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines;ingothosts;ingothardwares,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const action = "ReconcileReservation" // of all events

// Reconciler shows how much of each reservation is claimed, and ends reservations. Client,
// Recorder and Clock are required.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// WatchFilterValue selects Clusters and hosts by label; empty: all.
	WatchFilterValue string
	Timing           timing.Timing
	// Metrics may be nil.
	Metrics *Metrics
}

// recheckJitter is the random part added to the recheck interval, so that a started manager does
// not check all reservations at once.
const recheckJitter = 0.3

func (r *Reconciler) recheck() time.Duration {
	return wait.Jitter(r.Timing.WithDefaults().ReservationCheck, recheckJitter)
}

// Reconcile updates or ends one reservation.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reservation := &infrav1.IngotReservation{}
	if err := r.Client.Get(ctx, req.NamespacedName, reservation); err != nil {
		r.Metrics.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := reservation.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved || !reservation.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	cluster, err := kubeutil.Find[clusterv1.Cluster](ctx, r.Client, reservation.Namespace, reservation.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	var selected client.Object = reservation
	if cluster != nil {
		selected = cluster
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(selected, r.WatchFilterValue) {
		return ctrl.Result{}, nil // M41
	}
	if reservation.Spec.State == infrav1.ReservationRequested {
		return r.waitForAnswer(ctx, reservation)
	}
	base := reservation.DeepCopy()
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, reservation) // M43, M44
	if err != nil || isPaused {
		return ctrl.Result{}, err
	}
	if requeue { // a write to the status does not trigger a reconcile
		return ctrl.Result{RequeueAfter: r.Timing.WithDefaults().ReservationPaused}, nil
	}
	base.Status = *reservation.Status.DeepCopy()
	base.ResourceVersion = reservation.ResourceVersion
	ended, after, err := r.check(ctx, cluster, reservation)
	if err != nil || ended {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, r.save(ctx, reservation, base)
}

// waitForAnswer leaves a pending request to its planner: any write, even of the status, would make
// the planner start over. A stale request is withdrawn.
func (r *Reconciler) waitForAnswer(ctx context.Context, reservation *infrav1.IngotReservation) (ctrl.Result, error) {
	now := r.Clock.Now()
	if isStale(reservation, now) {
		return ctrl.Result{}, withdraw(ctx, r.Client, reservation, now)
	}
	return ctrl.Result{RequeueAfter: reservation.Spec.RequestTime.Add(staleAfter + time.Second).Sub(now)}, nil
}

// check ends the reservation, or shows its state and returns when to check again.
func (r *Reconciler) check(ctx context.Context, cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) (ended bool, after time.Duration, err error) {
	now := r.Clock.Now()
	switch {
	case cluster == nil:
		after, err := r.checkWithoutCluster(ctx, reservation, now)
		return false, after, err
	case !cluster.DeletionTimestamp.IsZero():
		_, err := r.end(ctx, reservation)
		return true, 0, err
	}
	if err := r.adopt(ctx, cluster, reservation); err != nil {
		return false, 0, err
	}
	if ended, err := r.lower(ctx, cluster, reservation); err != nil || ended {
		return ended, 0, err
	}
	snapshot, err := snapshotSource{cache: r.Client, filter: r.WatchFilterValue, now: now}.read(ctx, reservation.Namespace)
	if err != nil {
		return false, 0, err
	}
	outstanding := r.count(reservation, snapshot)
	upgrade, valid := reservation.Spec.Purpose == infrav1.ReservationUpgrade, allocation.IsInForce(reservation, now)
	// Only claims count: a selection may be cleared again.
	if complete := allocation.Left(reservation, snapshot.Machines, allocation.ClaimedHost(snapshot.Candidates)) == 0; complete && !upgrade {
		return true, 0, r.endClaimed(ctx, cluster, reservation)
	} else if !valid && (complete || r.rollback(reservation) != nil) {
		_, err := r.end(ctx, reservation)
		return true, 0, err
	}
	if !valid {
		r.showExpired(reservation, cluster, outstanding)
		return false, 0, nil
	}
	if upgrade {
		// An upgrade lacks hosts repeatedly, until released hosts are clean.
		r.setReady(reservation, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
		return false, r.checkAfter(reservation, now), nil
	}
	return false, r.checkAfter(reservation, now), r.checkHosts(reservation, snapshot, func() {
		r.setReady(reservation, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
	})
}

// checkWithoutCluster shows the state of a reservation whose Cluster does not exist yet.
func (r *Reconciler) checkWithoutCluster(ctx context.Context, reservation *infrav1.IngotReservation, now time.Time) (after time.Duration, err error) {
	snapshot, err := snapshotSource{cache: r.Client, filter: r.WatchFilterValue, now: now}.read(ctx, reservation.Namespace)
	if err != nil {
		return 0, err
	}
	outstanding := r.count(reservation, snapshot)
	if !allocation.IsInForce(reservation, now) {
		r.showExpired(reservation, nil, outstanding)
		return 0, nil
	}
	return r.checkAfter(reservation, now), r.checkHosts(reservation, snapshot, func() {
		r.setReady(reservation, metav1.ConditionFalse, infrav1.ReasonClusterMissing, fmt.Sprintf(
			"%d hosts are reserved, but Cluster %s does not exist in this namespace. Create the Cluster, or delete the reservation to release the hosts.", outstanding, reservation.Name))
	})
}

// showExpired shows that the reservation has expired. regarding is the Cluster; nil: none.
func (r *Reconciler) showExpired(reservation *infrav1.IngotReservation, regarding runtime.Object, outstanding int) {
	message := fmt.Sprintf("%d reserved hosts were not claimed by %s and are released. Set a later spec.expirationTime to reserve them again, or delete the reservation.",
		outstanding, reservation.Spec.ExpirationTime.UTC().Format(time.RFC3339))
	if r.setReady(reservation, metav1.ConditionFalse, infrav1.ReasonReservationExpired, message) {
		r.Recorder.Eventf(reservation, regarding, corev1.EventTypeWarning, infrav1.ReasonReservationExpired, action, "%s", message)
	}
}

func (r *Reconciler) checkAfter(reservation *infrav1.IngotReservation, now time.Time) time.Duration {
	if expires := reservation.Spec.ExpirationTime; !expires.IsZero() {
		return min(r.recheck(), expires.Sub(now)+time.Second)
	}
	return r.recheck()
}

// count sets the counters of the status from the machines, and returns the number of unclaimed
// hosts.
func (r *Reconciler) count(reservation *infrav1.IngotReservation, snapshot allocation.Snapshot) int {
	reserved := 0
	for _, g := range reservation.Spec.Groups {
		reserved += int(g.Count)
	}
	left := allocation.Left(reservation, snapshot.Machines, allocation.HoldsHost)
	reservation.Status.Reserved = new(int32(reserved))
	reservation.Status.Claimed = new(int32(reserved - left))
	outstanding := left
	if !allocation.IsInForce(reservation, snapshot.Now) {
		outstanding = 0
	}
	reservation.Status.Outstanding = new(int32(outstanding))
	r.Metrics.set(client.ObjectKeyFromObject(reservation), outstanding)
	return left
}

// checkHosts shows whether the inventory lacks hosts for the reservation; if not, it calls
// satisfied.
func (r *Reconciler) checkHosts(reservation *infrav1.IngotReservation, snapshot allocation.Snapshot, satisfied func()) error {
	plan, err := allocation.PlanReservation(allocation.RequestOf(reservation), snapshot)
	switch {
	case errors.Is(err, allocation.ErrSelectorInvalid):
		r.setReady(reservation, metav1.ConditionFalse, infrav1.ReasonSelectorInvalid, "The reservation holds no hosts until its selector is corrected: "+err.Error())
		return nil
	case err != nil:
		return err
	case plan.Satisfied:
		satisfied()
	default:
		if r.setReady(reservation, metav1.ConditionFalse, infrav1.ReasonInsufficientHosts, plan.Message) {
			r.Recorder.Eventf(reservation, nil, corev1.EventTypeWarning, infrav1.ReasonInsufficientHosts, action, "%s", plan.Message)
		}
	}
	return nil
}

// endClaimed ends a reservation of which the Cluster claimed all hosts at once. A host that the
// Cluster loses later is not reserved again.
func (r *Reconciler) endClaimed(ctx context.Context, cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) error {
	if ended, err := r.end(ctx, reservation); err != nil || !ended {
		return err
	}
	r.Recorder.Eventf(cluster, reservation, corev1.EventTypeNormal, infrav1.ReasonReservationConsumed, action,
		"Cluster %s claimed all %d reserved hosts. The reservation ends.", cluster.Name, *reservation.Status.Reserved)
	return nil
}

// rollback returns the operator's reservation that an upgrade replaced; nil: none.
func (r *Reconciler) rollback(reservation *infrav1.IngotReservation) *infrav1.IngotReservation {
	if reservation.Spec.Purpose != infrav1.ReservationUpgrade {
		return nil
	}
	return rollback(reservation, r.Clock.Now(), infrav1.ManualSpecAnnotation)
}

// end deletes the reservation or restores the operator's earlier one. It returns false if the
// reservation was already gone. A conflict is an error, so that the reconcile is retried:
// otherwise the reservation would take effect again with the next deleted machine.
func (r *Reconciler) end(ctx context.Context, reservation *infrav1.IngotReservation) (ended bool, err error) {
	err = restoreOrDelete(ctx, r.Client, reservation, r.rollback(reservation))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end the reservation: %w", err)
	}
	return true, nil
}

// lower reduces a reservation of the runtime extension to the current topology of a Cluster that
// is being built. An operator's reservation stays unchanged. ended reports that no host is left
// and the reservation has ended.
func (r *Reconciler) lower(ctx context.Context, cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) (ended bool, err error) {
	if reservation.Spec.RequestTime.IsZero() || !cluster.Spec.Topology.IsDefined() || !cluster.Spec.InfrastructureRef.IsDefined() {
		return false, nil
	}
	changed := reservation.DeepCopy()
	changed.Spec.Groups = allocation.LowerToTopology(reservation.Spec, cluster.Spec.Topology)
	switch {
	case len(changed.Spec.Groups) == 0:
		return r.end(ctx, reservation)
	case equality.Semantic.DeepEqual(changed.Spec, reservation.Spec):
		return false, nil
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(reservation, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("lower the reservation: %w", err)
	}
	reservation.ObjectMeta, reservation.Spec = changed.ObjectMeta, changed.Spec
	return false, nil
}

// adopt makes the Cluster the owner, so that the reservation is moved and deleted with it.
func (r *Reconciler) adopt(ctx context.Context, cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) error {
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: cluster.Name, UID: cluster.UID}
	changed := reservation.DeepCopy()
	changed.OwnerReferences = util.EnsureOwnerRef(changed.OwnerReferences, owner)
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	changed.Labels[clusterv1.ClusterNameLabel] = cluster.Name
	if equality.Semantic.DeepEqual(changed.ObjectMeta, reservation.ObjectMeta) {
		return nil
	}
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(reservation, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("adopt the reservation: %w", err)
	}
	reservation.ObjectMeta = changed.ObjectMeta
	return nil
}

func (r *Reconciler) setReady(reservation *infrav1.IngotReservation, status metav1.ConditionStatus, reason, message string) bool {
	was := conditions.Get(reservation, infrav1.ReadyCondition)
	conditions.Set(reservation, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: reservation.Generation})
	return was == nil || was.Status != status || was.Reason != reason
}

func (r *Reconciler) save(ctx context.Context, reservation, base *infrav1.IngotReservation) error {
	reservation.Status.ObservedGeneration = base.Generation
	if equality.Semantic.DeepEqual(base.Status, reservation.Status) {
		return nil
	}
	patched := base.DeepCopy()
	patched.Status = reservation.Status
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)))
}
