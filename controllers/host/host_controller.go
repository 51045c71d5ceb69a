// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"hash/fnv"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts/status,verbs=patch
// An IngotHardware blocks the deletion of its host (OwnerReferencesPermissionEnforcement):
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts/finalizers,verbs=update
// To restore the owner of an IngotHardware, the same plugin requires permission to delete it:
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles IngotHosts. Exported fields are required unless their comments allow
// nil or zero.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	BMC      Pool
	Recorder events.EventRecorder
	Clock    clock.Clock
	Policy   lifecycle.Policy
	// Fingerprint reads the certificate that host:port presents. It sends no data.
	Fingerprint func(ctx context.Context, address string) (string, error)
	// Poll is the interval at which the power state of a host is read.
	Poll time.Duration
	// Watches are event streams of BMCs, which report to Heard. Hosts with a stream are
	// polled less often. nil: no streams.
	Watches Watches
	Timing  timing.Timing
	// Images downloads firmware images from allowed sources; nil: no firmware updates.
	Images *http.Client
	// Continuity returns since when the state of hosts can be trusted; nil: always.
	Continuity Continuity
	// Nodes of workload clusters confirm which system runs on a host; nil: unknown.
	Nodes NodeReports
	// Boot is the boot server for BMCs and firmware. Zero: hosts boot by PXE only.
	Boot BootServer
	// NewID creates the UUIDs of orders.
	NewID func() string
	// WatchFilterValue selects the objects to reconcile by label; empty: all.
	WatchFilterValue string
	// Addresses are recent assignments, shared with the machine reconciler.
	Addresses *ipam.Memory

	memory hostMemory
	// queue is nil until the controller starts.
	queue atomic.Pointer[requestQueue]
}

// Pool runs calls to a BMC in its single session.
type Pool interface {
	Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error
}

// Watches keep event streams of BMCs, by host (bmc.Watches).
type Watches interface {
	// Want opens a stream unless it is open; it is called at every poll.
	Want(key string, target bmc.Target)
	Drop(key string)
	// Watched reports whether the stream is open.
	Watched(key string) bool
}

// Continuity is since when managers have watched the state of hosts without a gap (I21).
type Continuity interface {
	Since() time.Time
	// Known reports whether Since is known: a manager that just started looks it up first.
	Known() bool
	// Break restarts the continuity: a host went back to an earlier state.
	Break()
}

// NodeReports returns when the Node of a host's claim last reported; zero: never.
type NodeReports interface {
	LastReport(ctx context.Context, host *infrav1.IngotHost) (time.Time, error)
}

// BootServer is the boot server as BMCs and firmware reach it.
type BootServer struct {
	// URL is http://host:port, without a trailing slash.
	URL string
	// MediaToken returns the secret part of the CD image's URL for the host's current order.
	MediaToken func(host *infrav1.IngotHost) string
}

func (r *Reconciler) timing() timing.Timing { return r.Timing.WithDefaults() }

// Reconcile executes at most one step for a host.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	host := &infrav1.IngotHost{}
	if err := r.Client.Get(ctx, req.NamespacedName, host); err != nil {
		if apierrors.IsNotFound(err) {
			r.dropState(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ctx = withLogKeys(ctx, host)
	r.noticeRestore(ctx, host)
	if isMovingAway(host) {
		r.dropState(req.NamespacedName)
		return ctrl.Result{}, nil // the server now belongs to another management cluster (I9)
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return ctrl.Result{}, nil // M41; a watched object triggered this
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, host, infrav1.HostFinalizer); err != nil || added {
		return ctrl.Result{RequeueAfter: r.timing().Conflict}, err // such a change does not trigger a reconcile
	}
	if ok, retryAfter, err := r.preconditions(ctx, host); err != nil || !ok {
		return ctrl.Result{RequeueAfter: retryAfter}, err
	}
	after, err := r.takeStep(ctx, host)
	if isRetry(err) {
		after, err = r.timing().Conflict, nil
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// takeStep observes the host, decides, executes one step, shows the result in the status,
// and returns when to reconcile again.
func (r *Reconciler) takeStep(ctx context.Context, host *infrav1.IngotHost) (time.Duration, error) {
	base := host.DeepCopy()
	seen, err := r.observe(ctx, host)
	if err != nil || r.poolClosed() {
		return 0, err
	}
	decision := r.decide(ctx, host, seen)
	after, err := r.execute(ctx, host, base, seen, &decision)
	if err != nil || r.poolClosed() {
		return 0, err
	}
	r.logDecision(ctx, host, decision)
	if decision.KeepsConditions {
		r.recordDecision(host, decision)
		return after, nil
	}
	shown := r.displayDecision(host, seen, decision)
	r.summarize(host, seen, shown)
	if err := r.saveStatus(ctx, host, base, shown); err != nil {
		return 0, err
	}
	r.recordHealth(host, seen)
	r.watch(host, seen)
	if after == 0 {
		after = r.requeueAfter(host, seen.Observation, decision)
	}
	return after, nil
}

// decide asks lifecycle.Next. If the decision needs settings and firmware, it reads them and
// asks again.
func (r *Reconciler) decide(ctx context.Context, host *infrav1.IngotHost, seen *observation) lifecycle.Decision {
	defer r.keepFirmware(host, seen)
	decision, deferred := r.preparer().Defer(viewOf(host, seen), lifecycle.Next(host, seen.Observation, r.Policy))
	if _, ok := decision.Step.(lifecycle.ReadFirmware); !ok || deferred {
		return decision
	}
	r.readFirmware(ctx, host, seen)
	decision, _ = r.preparer().Defer(viewOf(host, seen), lifecycle.Next(host, seen.Observation, r.Policy))
	return decision
}

// dropState forgets a host that was deleted or moved away, and closes its BMC session.
func (r *Reconciler) dropState(host types.NamespacedName) {
	r.unwatch(host)
	address := r.memory.forget(host)
	if pool, can := r.BMC.(interface{ Forget(address string) }); can && address != "" {
		pool.Forget(address)
	}
}

// The factors multiply Reconciler.Poll for hosts that need less attention.
const (
	// restFactor applies to a provisioned, healthy host without pending work: a
	// MachineHealthCheck watches its Node more closely than Ingot could.
	restFactor = 3
	// watchedFactor applies to a host whose BMC sends events.
	watchedFactor = 10
)

func (r *Reconciler) requeueAfter(host *infrav1.IngotHost, obs lifecycle.Observation, decision lifecycle.Decision) time.Duration {
	switch step := decision.Step.(type) {
	case lifecycle.RemoveFinalizer:
		return 0
	case lifecycle.Wait:
		if !step.Until.IsZero() {
			return min(r.Poll, max(step.Until.Sub(obs.Now), r.timing().Conflict))
		}
	}
	return untilPoll(host.UID, r.Clock.Now(), r.pollInterval(host, obs))
}

func (r *Reconciler) pollInterval(host *infrav1.IngotHost, obs lifecycle.Observation) time.Duration {
	switch {
	case obs.BMC != lifecycle.BMCOK:
		return r.Poll
	case r.Watches != nil && r.Watches.Watched(keyOf(host).String()):
		return watchedFactor * r.Poll
	case isAtRest(host, obs):
		return restFactor * r.Poll
	}
	return r.Poll
}

// isAtRest reports whether a host is provisioned, on and healthy, and has no work to do.
func isAtRest(host *infrav1.IngotHost, obs lifecycle.Observation) bool {
	claim := host.Spec.Claim
	return claim != nil && claim.State == infrav1.ClaimProvisioned && host.Spec.Order == nil && obs.Power == infrav1.PowerStateOn &&
		!obs.Health.IsUnhealthy() && !obs.Deleting && !ptr.Deref(host.Spec.Maintenance, false)
}

// untilPoll returns the time until the host's slot in the poll interval: half an interval to
// one and a half. The UID determines the slot, so that polls spread out again after the
// start of the manager or the end of a pause, which trigger all hosts at once.
func untilPoll(uid types.UID, now time.Time, interval time.Duration) time.Duration {
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(uid)) // never fails
	own := time.Duration(digest.Sum64() % uint64(interval))
	wait := (own - time.Duration(now.UnixNano()%int64(interval)) + interval) % interval
	if wait <= interval/2 {
		wait += interval
	}
	return wait
}
