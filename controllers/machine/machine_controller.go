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

// action of the events of this package: what the controller was doing.
const action = "ReconcileMachine"

// Reconciler reconciles IngotMachines. All exported fields but Timing and Addresses are
// needed.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: a claim is never written on a cached view (I1).
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// NewID mints the UUIDs of instances.
	NewID func() string
	// WatchFilterValue selects the objects to reconcile by label.
	WatchFilterValue string
	Timing           timing.Timing
	// Addresses is what hosts were given a moment ago, and machines' systems, in one; nil:
	// the reconciler has one of its own.
	Addresses *ipam.Memory

	selections recentSelections
	// otherFormats has the machines whose bootstrap data is known not to be for Ignition.
	otherFormats ttlset.Set[formatOf]
	addresses    ipam.Memory
}

// outcome is what a phase says: go on, or stop here and come again after a while.
type outcome struct {
	stop  bool
	after time.Duration
}

// next lets the following phase run; stop ends the reconcile until something
// changes, or until after.
var next = outcome{}

func stop(after time.Duration) outcome { return outcome{stop: true, after: after} }

// retryLater stops the reconcile of a machine without a host, which looks again by itself.
func (r *Reconciler) retryLater() outcome {
	return stop(wait.Jitter(r.timing().Placement, retryJitter))
}

// nextAndAgain lets the following phases run, and has all of them run again after a while.
func nextAndAgain(after time.Duration) outcome { return outcome{after: after} }

// Reconcile takes an IngotMachine through its phases.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	machine := &infrav1.IngotMachine{}
	if err := r.Client.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := machine.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved {
		return ctrl.Result{}, nil // clusterctl moves the object: the claim stays (I9)
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(machine, r.WatchFilterValue) {
		return ctrl.Result{}, nil // another manager's, though an object that we watch led here (M41)
	}
	owner, err := util.GetOwnerMachine(ctx, r.Client, machine.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("owner of the IngotMachine: %w", err)
	}
	deleting := !machine.DeletionTimestamp.IsZero()
	if deleting && owner != nil && !inventory.RefersTo(owner, machine) {
		owner = nil // it has another, and does not hold this one up
	}
	if owner == nil && !deleting {
		return ctrl.Result{}, nil // M45: Cluster API sets the owner, and that brings us here again
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
		if again := s.summarize(r.Clock.Now(), r.timing()); reterr == nil {
			result.RequeueAfter = sooner(result.RequeueAfter, again)
		}
		if err := r.save(ctx, s); err != nil {
			reterr = kerrors.NewAggregate([]error{reterr, err})
		}
	}()
	if deleting {
		return r.run(ctx, s, r.waitForOwner, r.release, r.letGo)
	}
	return r.run(ctx, s, r.waitForReference, r.waitForPrerequisites, r.claim, r.followCleaning, r.followInstall, r.followBoot, r.followHealth)
}

// scope is what one reconcile knows and finds out.
type scope struct {
	machine *infrav1.IngotMachine
	// owner and cluster are nil only when the IngotMachine is being deleted.
	owner        *clusterv1.Machine
	cluster      *clusterv1.Cluster
	ingotCluster *infrav1.IngotCluster
	// catalogued is the IngotImage that spec.imageRef names; nil where it names none.
	catalogued *infrav1.IngotImage
	// around is what spec.networkData needs beside the host; nil where the machine has
	// none, and while it was not looked for.
	around *networkdata.Surroundings
	// host holds the claim; nil while there is none.
	host *infrav1.IngotHost
	// base is the IngotMachine as it was read.
	base *infrav1.IngotMachine
	// log has the machine and its cluster.
	log logr.Logger
	// gone: the finalizer is removed, and there is no status to write.
	gone bool
}

type phase func(context.Context, *scope) (outcome, error)

// run takes the phases in order, until one stops.
func (r *Reconciler) run(ctx context.Context, s *scope, phases ...phase) (ctrl.Result, error) {
	var after time.Duration // the soonest that was asked for; 0: nobody asked
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

// sooner returns the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// clusterOf finds the Cluster by the Machine, or, when that is gone, by the label.
func (r *Reconciler) clusterOf(ctx context.Context, machine *infrav1.IngotMachine, owner *clusterv1.Machine) (*clusterv1.Cluster, error) {
	name := machine.Labels[clusterv1.ClusterNameLabel]
	if owner != nil {
		name = owner.Spec.ClusterName
	}
	if name == "" {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return cluster, nil
}

// save writes the status if it changed, for both contracts in one.
func (r *Reconciler) save(ctx context.Context, s *scope) error {
	if s.gone {
		return nil
	}
	if !conditions.IsTrue(s.machine, infrav1.PausedCondition) { // a change is not acted on during a pause
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

// letGo removes the finalizer: the host is fenced, or no longer ours.
func (r *Reconciler) letGo(ctx context.Context, s *scope) (outcome, error) {
	before := s.machine.DeepCopy()
	if controllerutil.RemoveFinalizer(s.machine, infrav1.MachineFinalizer) {
		before.Status, s.gone = s.machine.Status, true
		err := r.Client.Patch(ctx, s.machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return stop(r.timing().Conflict), nil
		}
		if err == nil {
			s.hostLog().Info("Let the machine go: its host is fenced, or it has none")
		}
		return next, client.IgnoreNotFound(err)
	}
	return next, nil
}

// retryJitter is how much is added at random to a delay, as a part of it.
const retryJitter = 0.5

func (r *Reconciler) timing() timing.Timing { return r.Timing.WithDefaults() }
