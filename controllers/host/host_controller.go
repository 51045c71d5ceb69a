// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts/status,verbs=patch
// Its IngotHardware holds up the deletion of its host (OwnerReferencesPermissionEnforcement):
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts/finalizers,verbs=update
// Who puts the owner of an IngotHardware back must be allowed to delete it, by the same plugin:
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// action of the events of this package: what the controller was doing.
const action = "ReconcileHost"

// Pool runs a function on the one session that there may be with a BMC.
type Pool interface {
	Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error
}

// Reconciler reconciles IngotHosts. All exported fields are needed.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	BMC      Pool
	Recorder events.EventRecorder
	Clock    clock.Clock
	Policy   lifecycle.Policy
	// Fingerprint looks at the certificate that host:port presents, and sends nothing.
	Fingerprint func(ctx context.Context, address string) (string, error)
	// Poll is how often a host at rest is asked for its power state, each at a moment
	// of its own.
	Poll time.Duration
	// Watches tell of hosts that are polled the less for it; nil: there are none. They
	// bring their news to Heard.
	Watches Watches
	// Waits of its own; the zero value means DefaultWaits.
	Waits Waits
	// Images reads images of firmware, from where the operator allows; nil: none are read.
	Images *http.Client
	// Continuity is since when the state of hosts can be trusted; nil: always.
	Continuity Continuity
	// Nodes of workload clusters confirm what runs on a host; nil: none do.
	Nodes NodeReports
	// Boot is where BMCs and firmware find a boot server; the zero value: it is not known,
	// and hosts boot by PXE only.
	Boot BootServer
	// NewID mints the UUIDs of orders.
	NewID func() string
	// WatchFilterValue selects the objects to reconcile by label.
	WatchFilterValue string
	// Addresses is what hosts were given a moment ago, and machines' systems, in one; nil:
	// the reconciler has one of its own.
	Addresses *ipam.Memory

	began       beginning
	contacts    contacts
	peers       peers
	hearing     hearing
	addresses   ipam.Memory
	wakes       wakes
	works       firmware.Works
	generations generations
}

// Reconcile takes one step in the life of a host.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	host := &infrav1.IngotHost{}
	if err := r.Client.Get(ctx, req.NamespacedName, host); err != nil {
		if apierrors.IsNotFound(err) {
			r.let(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.lookBack(ctx, host)
	if leaves(host) {
		r.let(req.NamespacedName)
		return ctrl.Result{}, nil // clusterctl moves the object: nothing physical (I9)
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return ctrl.Result{}, nil // another manager's, though an object that we watch led here (M41)
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, host, infrav1.HostFinalizer); err != nil || added {
		return ctrl.Result{RequeueAfter: r.waits().Soon}, err // the watch holds such changes back
	}
	cluster, err := r.clusterOf(ctx, host)
	if err != nil {
		return ctrl.Result{}, err
	}
	isPaused, wait, err := r.pause(ctx, host, cluster)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if isPaused {
		r.unwatch(req.NamespacedName) // the BMC may be another's now (I10)
		r.works.Cancel(req.NamespacedName)
	}
	if isPaused && wait == 0 {
		wait = r.Poll // its Cluster may go without a word
	}
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}

	if r.Continuity != nil && !r.Continuity.Known() {
		return ctrl.Result{RequeueAfter: r.waits().Soon}, nil
	}
	if wrote, err := r.heedClock(ctx, host); err != nil || wrote {
		// What was written is newer than what pause has looked at (I10).
		return ctrl.Result{RequeueAfter: r.waits().Soon}, client.IgnoreNotFound(err)
	}
	base := host.DeepCopy()
	seen, err := r.observe(ctx, host)
	if isRetry(err) {
		return ctrl.Result{RequeueAfter: r.waits().Soon}, nil
	}
	if err != nil || r.stops() {
		return ctrl.Result{}, err
	}
	decision := r.decide(ctx, host, seen)
	after, err := r.execute(ctx, host, base, seen, &decision)
	if isRetry(err) {
		return ctrl.Result{RequeueAfter: r.waits().Soon}, nil // nothing was done, and there is nothing to tell
	}
	if err != nil || r.stops() {
		return ctrl.Result{}, err
	}
	if decision.Aside {
		r.Recorder.Eventf(host, nil, decision.Event, decision.Reason, action, "%s", decision.Message)
		return ctrl.Result{RequeueAfter: after}, nil
	}
	told := r.told(host, seen, decision)
	r.summarize(host, seen, told)
	if err := r.saveStatus(ctx, host, base, told); err != nil {
		return ctrl.Result{}, err
	}
	r.tellHealth(host, seen)
	r.watch(host, seen)
	if after == 0 {
		after = r.again(host, seen.Observation, decision)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// stops reports that the sessions at BMCs were closed, which is before controllers are told
// that the manager stops: what no BMC was asked any more is no news of the host.
func (r *Reconciler) stops() bool {
	pool, can := r.BMC.(interface{ Closed() bool })
	return can && pool.Closed()
}

// clusterOf is the Cluster of the host's claim: it pauses the host (I10).
func (r *Reconciler) clusterOf(ctx context.Context, host *infrav1.IngotHost) (*clusterv1.Cluster, error) {
	if host.Spec.Claim == nil {
		return nil, nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, host.Namespace, host.Spec.Claim.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cluster %s of the claim: %w", host.Spec.Claim.ClusterName, err)
	}
	return cluster, nil // nil where there is none
}

// saveStatus writes the status if it changed, and tells people what is new.
func (r *Reconciler) saveStatus(ctx context.Context, host, base *infrav1.IngotHost, decision lifecycle.Decision) error {
	news := readyChanged(base, host)
	host.Status.ObservedGeneration = base.Generation
	if !equality.Semantic.DeepEqual(base.Status, host.Status) {
		patched := base.DeepCopy()
		patched.Status = host.Status
		if err := r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if decision.Event != "" && news {
		r.Recorder.Eventf(host, nil, decision.Event, decision.Reason, action, "%s", decision.Message)
	}
	return nil
}

// note tells people of something that went as it should.
func (r *Reconciler) note(host *infrav1.IngotHost, reason, message string) {
	r.Recorder.Eventf(host, nil, corev1.EventTypeNormal, reason, action, "%s", message)
}

// event tells people of something that the decision did not foresee.
func (r *Reconciler) event(host *infrav1.IngotHost, reason, message string) {
	r.Recorder.Eventf(host, nil, corev1.EventTypeWarning, reason, action, "%s", message)
}
