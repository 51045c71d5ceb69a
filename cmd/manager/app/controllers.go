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
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	"github.com/ingot-metal/ingot/controllers/network"
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

// bmcCloseTimeout limits the closing of BMC sessions when the manager stops. Together with a call that
// ignores its cancellation, it stays below 30 seconds.
const bmcCloseTimeout = 12 * time.Second

func addControllers(ctx context.Context, mgr manager.Manager, o *Options, id *identity, watch *continuity.Watch) error {
	observer, err := bmcMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	poolOptions := o.BMC
	poolOptions.Observer, poolOptions.SessionLabel = observer, id.sessionMark()
	// A session outlives the longest time between two polls, which is 4.5 intervals.
	poolOptions.IdleTimeout = max(poolOptions.IdleTimeout, 5*o.PowerPoll)
	// Most workers must remain available when BMCs hang. The minimum is two, because failed BMCs get
	// half of the slots.
	poolOptions.SlowCalls.Limit = min(poolOptions.SlowCalls.Limit, max(2, o.HostConcurrency/4))
	pool := bmc.NewPool(NewDialer().Dial, poolOptions)
	err = mgr.Add(everywhere(func(ctx context.Context) error { // close the BMC sessions when the manager stops
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bmcCloseTimeout)
		defer cancel()
		return pool.Close(ctx)
	}))
	if err != nil {
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
	addresses := &ipam.Memory{} // shared by hosts and machines
	hosts.Client, hosts.Live, hosts.BMC, hosts.Recorder, hosts.Addresses = mgr.GetClient(), mgr.GetAPIReader(), pool, recorder, addresses
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
		addImageControllers(mgr, o, recorder),
		mgr.Add(census),
		hosts.SetupWithManager(mgr, workers(o.HostConcurrency)),
		(&inuse.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}).SetupWithManager(mgr, workers(inUseConcurrency)),
		(&machine.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: recorder, Clock: clock.RealClock{},
			Timing: o.Timing, NewID: uuid.NewString, WatchFilterValue: o.WatchFilter, Addresses: addresses,
		}).SetupWithManager(ctx, mgr, workers(o.MachineConcurrency)),
		(&cluster.Reconciler{
			Client: mgr.GetClient(), Recorder: recorder, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(ctx, mgr, workers(o.ClusterConcurrency)),
		(&template.Reconciler{
			Client: mgr.GetClient(), WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workers(o.MachineTemplateConcurrency)),
		(&network.Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr, workers(networkConcurrency)),
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

// continuityWatch records the time since which the state of hosts is reliable (I21).
func continuityWatch(mgr manager.Manager, o *Options) *continuity.Watch {
	return &continuity.Watch{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Namespace: o.leaseNamespace(), Name: o.continuityLease(),
	}
}

// hostReconciler returns the host reconciler with the fields that depend on the options.
func hostReconciler(o *Options, id *identity) (*host.Reconciler, error) {
	// Firmware URLs come from IngotHosts, so the sources are restricted.
	images, err := o.Images.client()
	if err != nil {
		return nil, err
	}
	return &host.Reconciler{
		Clock: clock.RealClock{}, Policy: o.Policy, Poll: o.PowerPoll, Timing: o.Timing, NewID: uuid.NewString,
		WatchFilterValue: o.WatchFilter, Fingerprint: fingerprint(o.BMC.Sources), Images: images,
		Boot: host.BootServer{URL: o.bootURL(), MediaToken: func(h *infrav1.IngotHost) string { return bootconfig.MediaToken(id.keys, h) }},
	}, nil
}

// fingerprint returns a function that reads the certificate of a BMC at an allowed address.
func fingerprint(sources *bmc.Sources) func(ctx context.Context, address string) (string, error) {
	target := bmc.Target{Connecting: func(host string, to netip.AddrPort) error {
		if sources != nil && !sources.Allows(to.Addr()) {
			return &bmc.SourceError{Host: host}
		}
		return nil
	}}
	return func(ctx context.Context, address string) (string, error) { return trust.Probe(ctx, target, address) }
}

const (
	// networkConcurrency is one, because a reconcile reads all hosts of a network from the cache.
	networkConcurrency = 1
	// inUseConcurrency is the number of concurrent reconciles of the finalizer controller.
	inUseConcurrency = 2
	// moveConcurrency is the number of namespaces reconciled concurrently. A move affects one.
	moveConcurrency = 4
)

// bootRecorder writes boots into the status of hosts.
func bootRecorder(mgr manager.Manager) *bootlog.Recorder {
	return &bootlog.Recorder{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("ingot")}
}

// addAgentAPI serves agents on every replica; all writes use optimistic locks. bindings come from the
// boot server in this process. Other boot servers send theirs with each connection.
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
	cached, live, err := separateClients(mgr)
	if err != nil {
		return err
	}
	server := agentserver.New(agentserver.Options{
		Boots: boots, BootLog: &bootlog.Handler{Record: boots.Record, Sealed: id.keys.Sealed, Clock: clock.RealClock{}, Log: log},
		Client: cached, Live: live, Keys: id.keys, Pins: id.pins, Address: o.agentAddress(), Hardware: hardware,
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

// separateClients returns clients with rate limits of their own: one that reads from the manager's
// cache, and one that reads from the API server. Agents must not wait for the controllers: a call that
// takes too long is repeated, and the repeated calls make all others wait longer.
func separateClients(mgr manager.Manager) (client.Client, client.Reader, error) {
	options := client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}
	live, err := client.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, nil, fmt.Errorf("create the API client of the agent server: %w", err)
	}
	options.Cache = &client.CacheOptions{Reader: mgr.GetCache()}
	cached, err := client.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, nil, fmt.Errorf("create the caching API client of the agent server: %w", err)
	}
	return cached, live, nil
}

// The backoff of failed reconciles (I13). controller-runtime's maximum of 1,000 seconds would delay a
// fencing for too long after an outage of the API server.
const (
	retryFirst  = 5 * time.Millisecond
	retryMax    = 5 * time.Minute // including jitter
	retryJitter = 0.5
)

// workers returns the options of a controller with n concurrent reconciles.
func workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             jittered{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMax*2/3)},
	}
}

// jittered adds jitter, so that simultaneous failures are not retried simultaneously.
type jittered struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// When implements workqueue.TypedRateLimiter.
func (j jittered) When(item reconcile.Request) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(item), retryJitter)
}
