// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/v1beta1conditions"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters,verbs=list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts;ingothardwares;ingotmachines;ingotreservations;ingotimages;ingotnetworks,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// action of the events of this package: what the controller was doing.
const action = "ReconcileCluster"

// Reconciler reconciles IngotClusters. All exported fields but Clock are needed.
type Reconciler struct {
	// Client has the indexes of internal/index.
	Client   client.Client
	Recorder events.EventRecorder
	// WatchFilterValue selects the objects to reconcile by label.
	WatchFilterValue string
	// Clock ends promises of hosts; nil means the time of day.
	Clock clock.PassiveClock
}

func (r *Reconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// Reconcile waits for the endpoint and publishes failure domains.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &infrav1.IngotCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := object.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved || leftToOthers(object) {
		return ctrl.Result{}, nil // moved by clusterctl; C13
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(object, r.WatchFilterValue) {
		return ctrl.Result{}, nil // another manager's, though an object that we watch led here (M41)
	}
	owner, err := util.GetOwnerCluster(ctx, r.Client, object.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("owner of the IngotCluster: %w", err)
	}
	deleting := !object.DeletionTimestamp.IsZero()
	if owner == nil && !deleting {
		return ctrl.Result{}, nil // C14: Cluster API sets the owner, and that brings us here again
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, object, infrav1.ClusterFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	base := object.DeepCopy()
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, owner, object)
	if err != nil || (requeue && !isPaused) {
		return ctrl.Result{}, err
	}
	if isPaused {
		return ctrl.Result{}, r.saveStatus(ctx, object, base)
	}
	if deleting {
		return ctrl.Result{}, r.letGo(ctx, object, base, owner)
	}
	if err := r.publish(ctx, object, base, owner); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(lookAgain, 1)}, nil
}

// publish says what was found out of failure domains and endpoint, also where a part of it
// failed.
func (r *Reconciler) publish(ctx context.Context, object, base *infrav1.IngotCluster, owner *clusterv1.Cluster) error {
	err := r.publishFailureDomains(ctx, object, owner.Name)
	if err == nil {
		err = r.checkEndpoint(ctx, object, owner)
	}
	summarize(object)
	return kerrors.NewAggregate([]error{err, r.saveStatus(ctx, object, base)})
}

// lookAgain is how soon a cluster is looked at by itself, at the earliest: what wakes it are
// changes of one kind of object, and it joins several, whose caches do not go in step. A
// machine that has chosen a host and is deleted without it wakes nobody, either.
const lookAgain = 5 * time.Minute

// leftToOthers says whether somebody else manages a cluster (C13). The finalizer that was
// put on it before that was said is ours to take off all the same: nobody else would.
func leftToOthers(object *infrav1.IngotCluster) bool {
	deleting := !object.DeletionTimestamp.IsZero()
	return annotations.IsExternallyManaged(object) && !(deleting && controllerutil.ContainsFinalizer(object, infrav1.ClusterFinalizer))
}

// letGo removes the finalizer once no machine is left: an IngotCluster has nothing
// of its own to take down, but says which hosts its machines may have and how
// racks are labelled. Their deletion brings us here again.
func (r *Reconciler) letGo(ctx context.Context, object, base *infrav1.IngotCluster, owner *clusterv1.Cluster) error {
	name := object.Labels[clusterv1.ClusterNameLabel]
	if owner != nil {
		name = owner.Name
	}
	remaining, err := r.machinesOf(ctx, object.Namespace, name)
	if err != nil {
		return err
	}
	if len(remaining) > 0 {
		message := fmt.Sprintf("%d IngotMachines of Cluster %s remain, %s for example: Ingot waits until they are gone. Delete their Machines, and IngotMachines that have no Machine", len(remaining), name, remaining[0])
		if set(object, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonMachinesRemain, message) {
			r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, infrav1.ReasonMachinesRemain, action, "%s", message)
		}
		return r.saveStatus(ctx, object, base)
	}
	before := object.DeepCopy()
	if !controllerutil.RemoveFinalizer(object, infrav1.ClusterFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// machinesOf names the machines of a Cluster, in order; none of a Cluster without a name.
func (r *Reconciler) machinesOf(ctx context.Context, namespace, cluster string) ([]string, error) {
	if cluster == "" {
		return nil, nil
	}
	machines := &infrav1.IngotMachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		return nil, fmt.Errorf("machines of the cluster: %w", err)
	}
	names := make([]string, 0, len(machines.Items))
	for i := range machines.Items {
		names = append(names, machines.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

// saveStatus writes the status if it changed, for both contracts in one.
func (r *Reconciler) saveStatus(ctx context.Context, object, base *infrav1.IngotCluster) error {
	if !conditions.IsTrue(object, infrav1.PausedCondition) { // a change is not acted on during a pause
		object.Status.ObservedGeneration = base.Generation
	}
	object.SetV1Beta1Conditions(v1beta1conditions.Conditions(object.Status.Conditions))
	if equality.Semantic.DeepEqual(base.Status, object.Status) {
		return nil
	}
	patched := base.DeepCopy()
	patched.Status = object.Status
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)))
}

// publishFailureDomains lists the racks of the hosts that the cluster may draw on (C09).
func (r *Reconciler) publishFailureDomains(ctx context.Context, object *infrav1.IngotCluster, clusterName string) error {
	stock, err := r.stock(ctx, object.Namespace)
	if err != nil {
		return err
	}
	request := allocation.DomainsOf(object, clusterName, stock)
	if request.Architecture, err = r.architecture(ctx, request.Newest()); err != nil {
		return err
	}
	if request.Networks, err = r.networks(ctx, request.Newest()); err != nil {
		return err
	}
	domains, err := allocation.FailureDomains(stock.Candidates, request)
	object.Status.FailureDomains = domains
	reason, message := infrav1.ReasonFailureDomainsPublished, ""
	status := metav1.ConditionTrue
	switch {
	case errors.Is(err, allocation.ErrTooManyFailureDomains):
		status, reason, message = metav1.ConditionFalse, infrav1.ReasonTooManyFailureDomains, err.Error()
	case err != nil:
		status, reason, message = metav1.ConditionFalse, infrav1.ReasonSelectorInvalid, err.Error()
	case len(domains) == 0:
		reason = infrav1.ReasonNoFailureDomains
		message = "No host of this cluster carries the label " + inventory.FailureDomainLabel(object) + "; machines are placed without failure domains"
	case !slices.ContainsFunc(domains, func(d clusterv1.FailureDomain) bool { return ptr.Deref(d.ControlPlane, false) }):
		message = "In no failure domain is a host free for another control plane machine; one that is made now takes the first host that will do"
	}
	if set(object, infrav1.ClusterFailureDomainsReadyCondition, status, reason, message) && status == metav1.ConditionFalse {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return nil
}

// architecture of the image of the catalogue that a machine names; empty: it names none, or
// none that is there yet.
func (r *Reconciler) architecture(ctx context.Context, machine *infrav1.IngotMachine) (string, error) {
	if machine == nil || machine.Spec.ImageRef == nil {
		return "", nil
	}
	image := &infrav1.IngotImage{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: machine.Spec.ImageRef.Name}, image); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("image %s of IngotMachine %s: %w", machine.Spec.ImageRef.Name, machine.Name, err)
	}
	return image.Spec.Architecture, nil
}

// networks are all, by their names, for a machine that may have addresses of them.
func (r *Reconciler) networks(ctx context.Context, machine *infrav1.IngotMachine) (map[string]infrav1.IngotNetworkSpec, error) {
	if machine == nil || machine.Spec.NetworkData == nil {
		return nil, nil
	}
	return index.Networks(ctx, r.Client)
}

// stock reads the inventory of a namespace. None of it is changed.
func (r *Reconciler) stock(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations} {
		// A copy of a large inventory is dear.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return allocation.Snapshot{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	return allocation.Snapshot{Candidates: allocation.Candidates(hardware.LookedAfter(hosts.Items, r.WatchFilterValue), facts.Items), Machines: machines.Items,
		Reservations: reservations.Items, Now: r.now()}, nil
}

// set writes one condition; it says whether that is news.
func set(object *infrav1.IngotCluster, kind string, status metav1.ConditionStatus, reason, message string) bool {
	was := conditions.Get(object, kind)
	news := was == nil || was.Status != status || was.Reason != reason // before it is overwritten
	conditions.Set(object, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: object.Generation})
	return news
}

// summarize sets Ready by the endpoint alone: Cluster API mirrors Ready, and looks after
// the health of no machine while its cluster's infrastructure is not ready
// (core/reconcilers/machinehealthcheck, needsRemediation). Machines are placed without
// failure domains too, so that FailureDomainsReady speaks for itself.
func summarize(object *infrav1.IngotCluster) {
	endpoint := conditions.Get(object, infrav1.ClusterEndpointReadyCondition)
	switch {
	case endpoint == nil: // not looked at yet
	case endpoint.Status == metav1.ConditionTrue:
		set(object, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonReady, "")
	default:
		set(object, infrav1.ReadyCondition, endpoint.Status, endpoint.Reason, endpoint.Message)
	}
}
