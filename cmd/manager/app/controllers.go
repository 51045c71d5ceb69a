// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
	"github.com/ingot-metal/ingot/controllers/cluster"
	"github.com/ingot-metal/ingot/controllers/host"
	"github.com/ingot-metal/ingot/controllers/inuse"
	"github.com/ingot-metal/ingot/controllers/machine"
	"github.com/ingot-metal/ingot/controllers/move"
	"github.com/ingot-metal/ingot/controllers/node"
	"github.com/ingot-metal/ingot/controllers/remediation"
	"github.com/ingot-metal/ingot/controllers/template"
	"github.com/ingot-metal/ingot/internal/agentserver"
	"github.com/ingot-metal/ingot/internal/bootconfig"
	"github.com/ingot-metal/ingot/internal/bootlog"
	"github.com/ingot-metal/ingot/internal/continuity"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/passthrough"
)

// bmcCloseTimeout bounds how long the BMC sessions may take to end at the stop.
// With a call that ignores its end, and the end of its session, it stays below the 30
// seconds that the manager has.
const bmcCloseTimeout = 12 * time.Second

func addControllers(ctx context.Context, mgr manager.Manager, o *Options, id *identity, watch *continuity.Watch) error {
	observer, err := bmcMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	poolOptions := o.BMC
	poolOptions.Observer, poolOptions.Mark = observer, id.sessionMark()
	// A session outlives the longest pause between two polls (three intervals, and at
	// first one and a half times that).
	poolOptions.IdleTimeout = max(poolOptions.IdleTimeout, 5*o.PowerPoll)
	// However many BMCs hang, most of the workers serve those that do not.
	// Two are the least: BMCs that failed have half of the places.
	poolOptions.Patience.Slow = min(poolOptions.Patience.Slow, max(2, o.HostConcurrency/4))
	pool := bmc.NewPool(NewDialer().Dial, poolOptions)
	if err := mgr.Add(closer{pool}); err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder("ingot")
	hosts, err := hostReconciler(o, id)
	if err != nil {
		return err
	}
	census, err := host.NewCensus(mgr.GetClient(), metrics.Registry)
	if err != nil {
		return err
	}
	given := &ipam.Memory{} // one, since an address may be a host's or a machine's
	hosts.Client, hosts.Live, hosts.BMC, hosts.Recorder, hosts.Addresses = mgr.GetClient(), mgr.GetAPIReader(), pool, recorder, given
	if err := watchBMCs(mgr, o, pool, hosts); err != nil {
		return err
	}
	workloads, err := addWorkloads(ctx, mgr, o)
	if err != nil {
		return err
	}
	hosts.Continuity, hosts.Nodes = watch, node.Reports{Clusters: workloads}
	return errors.Join(
		mgr.Add(watch),
		addCatalogue(mgr, o, recorder),
		mgr.Add(census),
		hosts.SetupWithManager(mgr, workers(o.HostConcurrency)),
		(&inuse.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}).SetupWithManager(mgr, workers(holdConcurrency)),
		(&machine.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: recorder, Clock: clock.RealClock{},
			Timing: o.Timing, NewID: uuid.NewString, WatchFilterValue: o.WatchFilter, Addresses: given,
		}).SetupWithManager(ctx, mgr, workers(o.MachineConcurrency)),
		(&cluster.Reconciler{
			Client: mgr.GetClient(), Recorder: recorder, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(ctx, mgr, workers(o.ClusterConcurrency)),
		(&template.Reconciler{
			Client: mgr.GetClient(), WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workers(o.MachineTemplateConcurrency)),
		(&remediation.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workloads: workloads, Recorder: recorder, Clock: clock.RealClock{},
			MaxAttempts: o.Policy.MaxAttempts, Timing: o.Timing, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workloads, workers(o.RemediationConcurrency)),
		(&node.Reconciler{
			Client: mgr.GetClient(), Clusters: workloads, Recorder: recorder, Clock: clock.RealClock{}, Timing: o.Timing, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workloads, workers(o.MachineConcurrency)),
		(&move.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Rest: o.MoveRest, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workers(moveConcurrency)),
	)
}

// continuityWatch keeps the time since which the state of hosts can be trusted.
func continuityWatch(mgr manager.Manager, o *Options) *continuity.Watch {
	return &continuity.Watch{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Namespace: o.leaseNamespace(), Name: o.continuityLease(),
	}
}

// hostReconciler is all of the reconciler of hosts that the options decide.
func hostReconciler(o *Options, id *identity) (*host.Reconciler, error) {
	// Whoever writes a host chooses a URL that a privileged process then asks for.
	images, err := o.Images.client()
	if err != nil {
		return nil, fmt.Errorf("read images of firmware: %w", err)
	}
	return &host.Reconciler{
		Clock: clock.RealClock{}, Policy: o.Policy, Poll: o.PowerPoll, Timing: o.Timing, NewID: uuid.NewString,
		WatchFilterValue: o.WatchFilter, Fingerprint: fingerprint(o.BMC.Sources), Images: images,
		Boot: host.BootServer{URL: o.bootURL(), Ticket: func(h *infrav1.IngotHost) string { return bootconfig.Ticket(id.keys, h) }},
	}, nil
}

// fingerprint looks at the certificates of BMCs that are where they may be.
func fingerprint(sources *bmc.Sources) func(ctx context.Context, address string) (string, error) {
	target := bmc.Target{Connecting: func(host string, to netip.AddrPort) error {
		if sources != nil && !sources.Allows(to.Addr()) {
			return &bmc.SourceError{Host: host}
		}
		return nil
	}}
	return func(ctx context.Context, address string) (string, error) { return trust.Probe(ctx, target, address) }
}

// holdConcurrency is how many objects of a kind are released at once.
const holdConcurrency = 2

// moveConcurrency is how many namespaces are looked at at once: a move takes one.
const moveConcurrency = 4

// closer ends the BMC sessions when the manager stops.
type closer struct{ pool *bmc.Pool }

// Start waits for the end, then closes every session at its BMC.
func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bmcCloseTimeout)
	defer cancel()
	return c.pool.Close(ctx)
}

// NeedLeaderElection: a replica that never led has no sessions to close.
func (closer) NeedLeaderElection() bool { return false }

// bootRecorder keeps boots in the status of hosts.
func bootRecorder(mgr manager.Manager) *bootlog.Recorder {
	return &bootlog.Recorder{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("ingot")}
}

// addAgentAPI serves agents on every replica: each write goes by optimistic lock.
// Bindings are those of the boot server in this process; boot servers elsewhere send theirs
// with each connection.
func addAgentAPI(mgr manager.Manager, o *Options, id *identity, sockets *Sockets, bindings *pxe.AddressBindings, watch *continuity.Watch) error {
	log := mgr.GetLogger().WithName("agent-api")
	listeners := sockets.agents()
	for i := range listeners {
		listeners[i] = netutil.LimitListener(listeners[i], agentserver.MaxConnections)
		if o.AgentProxyProtocol {
			listeners[i] = passthrough.Listen(listeners[i], passthrough.ListenConfig{
				Sealed: id.keys.Sealed, Log: slog.New(logr.ToSlogHandler(log)),
			})
		}
	}
	hardware := func(conn net.Conn, source netip.Addr) net.HardwareAddr { return bindings.At(source) }
	if o.AgentProxyProtocol {
		hardware = func(conn net.Conn, _ netip.Addr) net.HardwareAddr { return passthrough.HardwareOf(conn) }
	}
	boots := bootRecorder(mgr)
	server := agentserver.New(agentserver.Options{
		Boots: boots, BootLog: &bootlog.Handler{Record: boots.Record, Sealed: id.keys.Sealed, Clock: clock.RealClock{}, Log: log},
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Keys: id.keys, Pins: id.pins, Address: o.agentAddress(), Hardware: hardware,
		Recorder: mgr.GetEventRecorder("ingot"), Clock: clock.RealClock{}, Log: log, WatchFilterValue: o.WatchFilter, StateSince: watch.Look,
	})
	return mgr.Add(everywhere(func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, listener := range listeners {
			group.Go(func() error { return server.Serve(ctx, listener, id.certificate) })
		}
		return group.Wait()
	}))
}

// How long a reconcile that failed waits for its next try (I13). controller-runtime's own
// limit is a thousand seconds: after a quarter of an hour without the API server or a
// webhook, a fence would stand still for as long again.
const (
	retryFirst  = 5 * time.Millisecond
	retryMax    = 5 * time.Minute // with jitter
	retryJitter = 0.5
)

// workers are the options of a controller that has so many.
func workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             jittered{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMax*2/3)},
	}
}

// jittered keeps what failed together from being tried again together.
type jittered struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// When implements workqueue.TypedRateLimiter.
func (j jittered) When(item reconcile.Request) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(item), retryJitter)
}
