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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/internal/v1beta1conditions"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters,verbs=list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts;ingothardwares;ingotmachines;ingotreservations;ingotimages;ingotnetworks,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const action = "ReconcileCluster" // of all events

// Reconciler reconciles IngotClusters. Client and Recorder are required.
type Reconciler struct {
	// Client has the indexes of internal/index.
	Client   client.Client
	Recorder events.EventRecorder
	// WatchFilterValue selects the objects to reconcile by label; empty: all.
	WatchFilterValue string
	// Clock is for the expiry of reservations; nil: the system clock.
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
	if _, moved := object.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved || isExternallyManaged(object) {
		return ctrl.Result{}, nil // C13
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(object, r.WatchFilterValue) {
		return ctrl.Result{}, nil // M41; a watched object triggered this
	}
	owner, err := util.GetOwnerCluster(ctx, r.Client, object.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read owner of the IngotCluster: %w", err)
	}
	deleting := !object.DeletionTimestamp.IsZero()
	if owner == nil && !deleting {
		return ctrl.Result{}, nil // C14: Cluster API sets the owner later
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
		return ctrl.Result{}, r.removeFinalizer(ctx, object, base, owner)
	}
	if err := r.publish(ctx, object, base, owner); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(recheckInterval, 1)}, nil
}

// publish updates failure domains and endpoint, and saves the status even if a part failed.
func (r *Reconciler) publish(ctx context.Context, object, base *infrav1.IngotCluster, owner *clusterv1.Cluster) error {
	err := r.publishFailureDomains(ctx, object, owner.Name)
	if err == nil {
		err = r.checkEndpoint(ctx, object, owner)
	}
	summarize(object)
	return kerrors.NewAggregate([]error{err, r.saveStatus(ctx, object, base)})
}

// recheckInterval is the minimum time between periodic reconciles. The result joins several kinds
// of objects whose caches are not synchronized, and the deletion of a machine that had only
// selected a host triggers no reconcile.
const recheckInterval = 5 * time.Minute

// isExternallyManaged reports whether another controller manages the cluster (C13). Ingot still
// removes a finalizer that it added before.
func isExternallyManaged(object *infrav1.IngotCluster) bool {
	deleting := !object.DeletionTimestamp.IsZero()
	return annotations.IsExternallyManaged(object) && !(deleting && controllerutil.ContainsFinalizer(object, infrav1.ClusterFinalizer))
}

// removeFinalizer removes the finalizer once no machine is left: machines need the host selector
// and the rack label of the IngotCluster.
func (r *Reconciler) removeFinalizer(ctx context.Context, object, base *infrav1.IngotCluster, owner *clusterv1.Cluster) error {
	name := object.Labels[clusterv1.ClusterNameLabel]
	if owner != nil {
		name = owner.Name
	}
	remaining, err := r.machinesOf(ctx, object.Namespace, name)
	if err != nil {
		return err
	}
	if len(remaining) > 0 {
		message := fmt.Sprintf("Waiting for %d IngotMachines of Cluster %s, such as %s, to be deleted. Delete their Machines, and IngotMachines without a Machine.", len(remaining), name, remaining[0])
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

// machinesOf lists the names of a Cluster's machines, sorted; none if the Cluster's name is
// unknown.
func (r *Reconciler) machinesOf(ctx context.Context, namespace, cluster string) ([]string, error) {
	if cluster == "" {
		return nil, nil
	}
	machines := &infrav1.IngotMachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		return nil, fmt.Errorf("list machines of the cluster: %w", err)
	}
	names := make([]string, 0, len(machines.Items))
	for i := range machines.Items {
		names = append(names, machines.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

func (r *Reconciler) saveStatus(ctx context.Context, object, base *infrav1.IngotCluster) error {
	if !conditions.IsTrue(object, infrav1.PausedCondition) {
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

// publishFailureDomains lists the racks of the hosts that the cluster may use (C09).
func (r *Reconciler) publishFailureDomains(ctx context.Context, object *infrav1.IngotCluster, clusterName string) error {
	snapshot, err := r.snapshot(ctx, object.Namespace)
	if err != nil {
		return err
	}
	request := allocation.DomainsOf(object, clusterName, snapshot)
	if request.Architecture, err = r.architecture(ctx, request.Newest()); err != nil {
		return err
	}
	if request.Networks, err = r.networks(ctx, request.Newest()); err != nil {
		return err
	}
	domains, err := allocation.FailureDomains(snapshot.Candidates, request)
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
		message = "No host of this cluster has label " + inventory.FailureDomainLabel(object) + ". Ingot places machines without failure domains."
	case !slices.ContainsFunc(domains, func(d clusterv1.FailureDomain) bool { return ptr.Deref(d.ControlPlane, false) }):
		message = "No failure domain has a free host for another control plane machine. A new one gets the first suitable host."
	}
	if set(object, infrav1.ClusterFailureDomainsReadyCondition, status, reason, message) && status == metav1.ConditionFalse {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return nil
}

func (r *Reconciler) architecture(ctx context.Context, machine *infrav1.IngotMachine) (string, error) {
	if machine == nil || machine.Spec.ImageRef == nil {
		return "", nil
	}
	image, err := kubeutil.Find[infrav1.IngotImage](ctx, r.Client, "", machine.Spec.ImageRef.Name)
	if err != nil || image == nil {
		return "", err
	}
	return image.Spec.Architecture, nil
}

func (r *Reconciler) networks(ctx context.Context, machine *infrav1.IngotMachine) (map[string]infrav1.IngotNetworkSpec, error) {
	if machine == nil || machine.Spec.NetworkData == nil {
		return nil, nil
	}
	return index.Networks(ctx, r.Client)
}

func (r *Reconciler) snapshot(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations} {
		// Copying a large inventory is expensive.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return allocation.Snapshot{}, fmt.Errorf("list inventory of namespace %s: %w", namespace, err)
		}
	}
	return allocation.Snapshot{Candidates: allocation.Candidates(hardware.FilterByWatchLabel(hosts.Items, r.WatchFilterValue), facts.Items), Machines: machines.Items,
		Reservations: reservations.Items, Now: r.now()}, nil
}

// set writes one condition and reports whether status or reason changed.
func set(object *infrav1.IngotCluster, kind string, status metav1.ConditionStatus, reason, message string) bool {
	was := conditions.Get(object, kind)
	changed := was == nil || was.Status != status || was.Reason != reason
	conditions.Set(object, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: object.Generation})
	return changed
}

// summarize sets Ready by the endpoint alone. Cluster API mirrors Ready, and does not remediate
// machines while the infrastructure of their cluster is not ready
// (core/reconcilers/machinehealthcheck, needsRemediation). FailureDomainsReady is not included:
// machines are placed without failure domains too.
func summarize(object *infrav1.IngotCluster) {
	endpoint := conditions.Get(object, infrav1.ClusterEndpointReadyCondition)
	switch {
	case endpoint == nil: // not checked yet
	case endpoint.Status == metav1.ConditionTrue:
		set(object, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonReady, "")
	default:
		set(object, infrav1.ReadyCondition, endpoint.Status, endpoint.Reason, endpoint.Message)
	}
}
