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
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotreservations,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotreservations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines;ingothosts;ingothardwares,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// action of the events of this package: what the controller was doing.
const action = "ReconcileReservation"

// Reconciler shows how far reservations are met, and ends them. All exported fields
// but Metrics are needed.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// WatchFilterValue selects the Clusters whose reservations are looked after, and the
	// hosts that there are for them.
	WatchFilterValue string
	Timing           timing.Timing
	// Metrics may be nil.
	Metrics *Metrics
}

// recheckJitter is how much later at most a reservation is looked at again, in parts of
// the wait, so that a manager that was started does not look at all of them at once.
const recheckJitter = 0.3

func (r *Reconciler) recheck() time.Duration {
	return wait.Jitter(r.Timing.WithDefaults().ReservationCheck, recheckJitter)
}

// Reconcile looks after one reservation.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reservation := &infrav1.IngotReservation{}
	if err := r.Client.Get(ctx, req.NamespacedName, reservation); err != nil {
		r.Metrics.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := reservation.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved || !reservation.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	cluster, err := r.clusterOf(ctx, reservation)
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.othersBusiness(cluster, reservation) {
		return ctrl.Result{}, nil
	}
	if reservation.Spec.State == infrav1.ReservationAsked {
		return r.waitForAnswer(ctx, reservation)
	}
	base := reservation.DeepCopy()
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, reservation) // M43, M44
	if err != nil || isPaused {
		return ctrl.Result{}, err
	}
	if requeue { // what was written here, of the status alone, brings nobody here again
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

// othersBusiness: the Cluster, or the reservation while it has none, is another
// manager's (M41).
func (r *Reconciler) othersBusiness(cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) bool {
	if r.WatchFilterValue == "" {
		return false
	}
	if cluster != nil {
		return !labels.HasWatchLabel(cluster, r.WatchFilterValue)
	}
	return !labels.HasWatchLabel(reservation, r.WatchFilterValue)
}

func (r *Reconciler) clusterOf(ctx context.Context, reservation *infrav1.IngotReservation) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(reservation), cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reservation.Name, err)
	}
	return cluster, nil
}

// waitForAnswer leaves what is being asked for to whoever asks: a write, of the status
// even, would make that start over. What was forgotten is withdrawn.
func (r *Reconciler) waitForAnswer(ctx context.Context, reservation *infrav1.IngotReservation) (ctrl.Result, error) {
	now := r.Clock.Now()
	if stale(reservation, now) {
		return ctrl.Result{}, withdraw(ctx, r.Client, reservation, now)
	}
	return ctrl.Result{RequeueAfter: reservation.Spec.AskedAt.Add(staleAfter + time.Second).Sub(now)}, nil
}

// check ends the reservation, or says how it stands and when to look again.
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
	if none, err := r.lower(ctx, cluster, reservation); err != nil || none {
		return none, 0, err
	}
	snapshot, err := snapshotSource{cache: r.Client, filter: r.WatchFilterValue, now: now}.read(ctx, reservation.Namespace)
	if err != nil {
		return false, 0, err
	}
	left := r.count(reservation, snapshot)
	upgrade, stands := reservation.Spec.Purpose == infrav1.ReservationUpgrade, allocation.Stands(reservation, now)
	// By claims: a host that was only chosen may be given back.
	if had := allocation.Left(reservation, snapshot.Machines, allocation.ClaimedHost(snapshot.Candidates)) == 0; had && !upgrade {
		return true, 0, r.fulfilled(ctx, cluster, reservation)
	} else if !stands && (had || r.rollback(reservation) != nil) {
		_, err := r.end(ctx, reservation)
		return true, 0, err
	}
	if !stands {
		r.expired(reservation, cluster, left)
		return false, 0, nil
	}
	if upgrade {
		// It lacks hosts time and again: each is on its way back, or another's turn.
		r.say(reservation, metav1.ConditionTrue, infrav1.ReasonPromiseKept, "")
		return false, r.next(reservation, now), nil
	}
	return false, r.next(reservation, now), r.stillThere(reservation, snapshot, func() {
		r.say(reservation, metav1.ConditionTrue, infrav1.ReasonPromiseKept, "")
	})
}

// checkWithoutCluster says how a promise stands to a Cluster that is not there, perhaps not yet.
func (r *Reconciler) checkWithoutCluster(ctx context.Context, reservation *infrav1.IngotReservation, now time.Time) (after time.Duration, err error) {
	snapshot, err := snapshotSource{cache: r.Client, filter: r.WatchFilterValue, now: now}.read(ctx, reservation.Namespace)
	if err != nil {
		return 0, err
	}
	left := r.count(reservation, snapshot)
	if !allocation.Stands(reservation, now) {
		r.expired(reservation, nil, left)
		return 0, nil
	}
	return r.next(reservation, now), r.stillThere(reservation, snapshot, func() {
		r.say(reservation, metav1.ConditionFalse, infrav1.ReasonClusterMissing, fmt.Sprintf(
			"The %d hosts are there, and there is no Cluster %s in this namespace. Create it, or delete the reservation: until then they are kept from others", left, reservation.Name))
	})
}

// expired tells that the promise is over. regarding is the Cluster; nil: none.
func (r *Reconciler) expired(reservation *infrav1.IngotReservation, regarding runtime.Object, left int) {
	message := fmt.Sprintf("%d hosts that were promised were not claimed by %s, and others may have them now. Set a later spec.expiresAt to promise them again, or delete the reservation",
		left, reservation.Spec.ExpiresAt.UTC().Format(time.RFC3339))
	if r.say(reservation, metav1.ConditionFalse, infrav1.ReasonPromiseExpired, message) {
		r.Recorder.Eventf(reservation, regarding, corev1.EventTypeWarning, infrav1.ReasonPromiseExpired, action, "%s", message)
	}
}

// next is when to look again: at the expiry, or sooner.
func (r *Reconciler) next(reservation *infrav1.IngotReservation, now time.Time) time.Duration {
	if expires := reservation.Spec.ExpiresAt; !expires.IsZero() {
		return min(r.recheck(), expires.Sub(now)+time.Second)
	}
	return r.recheck()
}

// count fills in how far the promise is met, from the machines. It returns what is left.
func (r *Reconciler) count(reservation *infrav1.IngotReservation, snapshot allocation.Snapshot) int {
	promised := 0
	for _, g := range reservation.Spec.Groups {
		promised += int(g.Count)
	}
	left := allocation.Left(reservation, snapshot.Machines, allocation.HoldsHost)
	reservation.Status.Promised = new(int32(promised))
	reservation.Status.Claimed = new(int32(promised - left))
	outstanding := left
	if !allocation.Stands(reservation, snapshot.Now) {
		outstanding = 0 // nothing is kept any more
	}
	reservation.Status.Outstanding = new(int32(outstanding))
	r.Metrics.set(client.ObjectKeyFromObject(reservation), outstanding)
	return left
}

// stillThere says whether the hosts that are left to claim are there; kept says that they are.
func (r *Reconciler) stillThere(reservation *infrav1.IngotReservation, snapshot allocation.Snapshot, kept func()) error {
	plan, err := allocation.PlanPromise(allocation.RequestOf(reservation), snapshot)
	switch {
	case errors.Is(err, allocation.ErrSelectorInvalid):
		r.say(reservation, metav1.ConditionFalse, infrav1.ReasonSelectorInvalid, err.Error()+". No host is kept by this reservation: correct it")
		return nil
	case err != nil:
		return err
	case plan.Satisfied:
		kept()
	default:
		if r.say(reservation, metav1.ConditionFalse, infrav1.ReasonPromiseShort, plan.Message) {
			r.Recorder.Eventf(reservation, nil, corev1.EventTypeWarning, infrav1.ReasonPromiseShort, action, "%s", plan.Message)
		}
	}
	return nil
}

// fulfilled ends a promise: the Cluster has all of its hosts at once, and what it loses
// from now on it does not get back ahead of others.
func (r *Reconciler) fulfilled(ctx context.Context, cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) error {
	if ended, err := r.end(ctx, reservation); err != nil || !ended {
		return err
	}
	r.Recorder.Eventf(cluster, reservation, corev1.EventTypeNormal, infrav1.ReasonPromiseFulfilled, action,
		"Cluster %s has the %d hosts that it was promised; the reservation ends", cluster.Name, *reservation.Status.Promised)
	return nil
}

// rollback is what a person promised before the upgrade that the reservation is for; nil:
// nothing.
func (r *Reconciler) rollback(reservation *infrav1.IngotReservation) *infrav1.IngotReservation {
	if reservation.Spec.Purpose != infrav1.ReservationUpgrade {
		return nil
	}
	return rollback(reservation, r.Clock.Now(), infrav1.ByHandAnnotation)
}

// end deletes the reservation as it was seen, or puts back what a person promised before
// it; not ended: it was gone. It fails when it
// has changed since, by a status of one's own even: nothing else would bring us here
// again, and it would come to life with the next machine that is deleted.
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

// lower takes back what the runtime extension promised, and the topology of a Cluster that
// is being built does not ask for any more. What a person promised is left as it is. None:
// nothing was left, and the reservation has ended.
func (r *Reconciler) lower(ctx context.Context, cluster *clusterv1.Cluster, reservation *infrav1.IngotReservation) (none bool, err error) {
	if reservation.Spec.AskedAt.IsZero() || !cluster.Spec.Topology.IsDefined() || !cluster.Spec.InfrastructureRef.IsDefined() {
		return false, nil
	}
	changed := reservation.DeepCopy()
	changed.Spec.Groups = allocation.Lowered(reservation.Spec, cluster.Spec.Topology)
	switch {
	case len(changed.Spec.Groups) == 0:
		return r.end(ctx, reservation)
	case equality.Semantic.DeepEqual(changed.Spec, reservation.Spec):
		return false, nil
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(reservation, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("lower what was promised: %w", err)
	}
	reservation.ObjectMeta, reservation.Spec = changed.ObjectMeta, changed.Spec
	return false, nil
}

// adopt makes the Cluster the owner, so that the reservation goes and moves with it.
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

// say sets Ready; it says whether that is news.
func (r *Reconciler) say(reservation *infrav1.IngotReservation, status metav1.ConditionStatus, reason, message string) bool {
	was := conditions.Get(reservation, infrav1.ReadyCondition)
	conditions.Set(reservation, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: reservation.Generation})
	return was == nil || was.Status != status || was.Reason != reason
}

// save writes the status if it changed.
func (r *Reconciler) save(ctx context.Context, reservation, base *infrav1.IngotReservation) error {
	reservation.Status.ObservedGeneration = base.Generation
	if equality.Semantic.DeepEqual(base.Status, reservation.Status) {
		return nil
	}
	patched := base.DeepCopy()
	patched.Status = reservation.Status
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)))
}
