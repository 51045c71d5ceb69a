// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/internal/v1beta1conditions"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotreservations;ingotimages,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const action = "ReconcileMachine" // of all events

// Reconciler reconciles IngotMachines. All exported fields except WatchFilterValue, Timing and
// Addresses are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: a claim is never written on a cached version (I1).
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// NewID creates the UUIDs of instances.
	NewID func() string
	// WatchFilterValue selects the objects to reconcile by label; empty: all.
	WatchFilterValue string
	Timing           timing.Timing
	// Addresses are recent assignments, shared with the host reconciler; nil: not shared.
	Addresses *ipam.Memory

	selections recentSelections
	// notIgnition has the bootstrap Secrets that are known not to be for Ignition.
	notIgnition ttlset.Set[bootstrapSecretKey]
	addresses   ipam.Memory
}

// outcome is the result of a phase: whether to stop, and when to reconcile again; 0: when
// an object changes.
type outcome struct {
	stop  bool
	after time.Duration
}

var next = outcome{}

func stop(after time.Duration) outcome { return outcome{stop: true, after: after} }

// retryLater stops the reconcile of a machine without a host until the next try.
func (r *Reconciler) retryLater() outcome {
	return stop(wait.Jitter(r.timing().Placement, retryJitter))
}

// Reconcile runs the phases of an IngotMachine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	machine := &infrav1.IngotMachine{}
	if err := r.Client.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := machine.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved {
		return ctrl.Result{}, nil // clusterctl moves the object: the claim stays (I9)
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(machine, r.WatchFilterValue) {
		return ctrl.Result{}, nil // M41; a watched object triggered this
	}
	owner, err := util.GetOwnerMachine(ctx, r.Client, machine.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("read owner of the IngotMachine: %w", err)
	}
	deleting := !machine.DeletionTimestamp.IsZero()
	if deleting && owner != nil && !inventory.RefersToMachine(owner, machine) {
		owner = nil // that Machine has another IngotMachine
	}
	if owner == nil && !deleting {
		return ctrl.Result{}, nil // M45: Cluster API sets the owner later
	}
	cluster, err := r.clusterOf(ctx, machine, owner)
	if err != nil || (cluster == nil && !deleting) {
		return ctrl.Result{}, err // M47
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, machine, infrav1.MachineFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	s := &scope{machine: machine, owner: owner, cluster: cluster, base: machine.DeepCopy(), log: ctrl.LoggerFrom(ctx).WithValues("machine", req.String())}
	if cluster != nil {
		s.log = s.log.WithValues("cluster", client.ObjectKeyFromObject(cluster).String())
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, machine)
	if err != nil || (requeue && !isPaused) {
		return ctrl.Result{}, err
	}
	if isPaused || (failed(machine) && !deleting) { // M46
		return ctrl.Result{}, r.save(ctx, s)
	}
	defer func() {
		if after := s.summarize(r.Clock.Now(), r.timing()); reterr == nil {
			result.RequeueAfter = sooner(result.RequeueAfter, after)
		}
		if err := r.save(ctx, s); err != nil {
			reterr = kerrors.NewAggregate([]error{reterr, err})
		}
	}()
	if deleting {
		return r.run(ctx, s, r.waitForOwner, r.release, r.removeFinalizer)
	}
	return r.run(ctx, s, r.waitForReference, r.waitForPrerequisites, r.claim, r.followCleaning, r.followInstall, r.followBoot, r.followHealth)
}

// scope is the state of one reconcile.
type scope struct {
	machine *infrav1.IngotMachine
	// owner and cluster are nil only when the IngotMachine is being deleted.
	owner        *clusterv1.Machine
	cluster      *clusterv1.Cluster
	ingotCluster *infrav1.IngotCluster
	// catalogImage is the IngotImage of spec.imageRef; nil without a reference.
	catalogImage *infrav1.IngotImage
	// around is the input of spec.networkData in addition to the host; nil without networkData,
	// and until findNetwork.
	around *networkdata.Surroundings
	// host has the claim; nil: none.
	host *infrav1.IngotHost
	// base is the IngotMachine as it was read.
	base *infrav1.IngotMachine
	// log has the keys machine and cluster.
	log logr.Logger
	// gone: the finalizer is removed, and there is no status to write.
	gone bool
}

type phase func(context.Context, *scope) (outcome, error)

// run runs the phases in order until one stops.
func (r *Reconciler) run(ctx context.Context, s *scope, phases ...phase) (ctrl.Result, error) {
	var after time.Duration
	for _, p := range phases {
		out, err := p(ctx, s)
		if err != nil {
			return ctrl.Result{}, err
		}
		after = sooner(after, out.after)
		if out.stop {
			break
		}
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (r *Reconciler) clusterOf(ctx context.Context, machine *infrav1.IngotMachine, owner *clusterv1.Machine) (*clusterv1.Cluster, error) {
	name := machine.Labels[clusterv1.ClusterNameLabel]
	if owner != nil {
		name = owner.Spec.ClusterName
	}
	if name == "" {
		return nil, nil
	}
	return kubeutil.Find[clusterv1.Cluster](ctx, r.Client, machine.Namespace, name)
}

func (r *Reconciler) save(ctx context.Context, s *scope) error {
	if s.gone {
		return nil
	}
	if !conditions.IsTrue(s.machine, infrav1.PausedCondition) {
		s.machine.Status.ObservedGeneration = s.base.Generation
	}
	s.machine.SetV1Beta1Conditions(v1beta1conditions.Conditions(s.machine.Status.Conditions))
	if equality.Semantic.DeepEqual(s.base.Status, s.machine.Status) {
		return nil
	}
	patched := s.base.DeepCopy()
	patched.Status = s.machine.Status
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, client.MergeFrom(s.base)))
}

// removeFinalizer removes the finalizer: the host is fenced, or no longer claimed.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) (outcome, error) {
	before := s.machine.DeepCopy()
	if !controllerutil.RemoveFinalizer(s.machine, infrav1.MachineFinalizer) {
		return next, nil
	}
	before.Status, s.gone = s.machine.Status, true
	err := r.Client.Patch(ctx, s.machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return stop(r.timing().Conflict), nil
	}
	if err == nil {
		s.hostLog().Info("Removed the finalizer: the host is fenced, or there is none")
	}
	return next, client.IgnoreNotFound(err)
}

const retryJitter = 0.5

func (r *Reconciler) timing() timing.Timing { return r.Timing.WithDefaults() }
