// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1beta1 "github.com/ingot-metal/ingot/api/v1beta1"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/controllers/cluster"
	"github.com/ingot-metal/ingot/controllers/host"
	"github.com/ingot-metal/ingot/controllers/index"
	"github.com/ingot-metal/ingot/controllers/machine"
	"github.com/ingot-metal/ingot/controllers/session"
	"github.com/ingot-metal/ingot/controllers/template"
	"github.com/ingot-metal/ingot/controllers/token"
	"github.com/ingot-metal/ingot/webhooks"
)

// leaderLock is the name of the leader's Lease (names.md).
const leaderLock = "controller-leader-election-ingot"

// bmcCloseTimeout bounds how long the BMC sessions may take to end at the stop.
const bmcCloseTimeout = 15 * time.Second

// Scheme knows every type that the manager handles.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, infrav1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Run runs the manager until the context ends.
func Run(ctx context.Context, o *Options, open OpenSockets) error {
	if err := o.Validate(); err != nil {
		return err
	}
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if err := index.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	keys, err := token.LoadKeys(o.AgentKeyDir)
	if err != nil {
		return err
	}
	pins, err := token.LoadPins(o.AgentKeyDir)
	if err != nil {
		return err
	}
	sockets, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer sockets.Close()

	if o.Has(RoleControllers) {
		if err := addControllers(ctx, mgr, o); err != nil {
			return err
		}
		if err := addAgentAPI(mgr, o, keys, pins, sockets); err != nil {
			return err
		}
		if o.servesWebhooks() {
			if err := webhooks.SetupWithManager(mgr, webhooks.Options{ManagerUsername: o.ManagerUsername}); err != nil {
				return err
			}
		}
	}
	if o.Has(RoleBoot) {
		if err := addBootServer(mgr, o, keys, pins, sockets); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

func newManager(o *Options) (manager.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	tlsOptions, diagnostics, err := flags.GetManagerOptions(o.Manager)
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                     scheme,
		Metrics:                    *diagnostics,
		HealthProbeBindAddress:     o.HealthAddress,
		LeaderElection:             o.LeaderElect,
		LeaderElectionID:           leaderLock,
		LeaderElectionNamespace:    o.leaseNamespace(),
		LeaderElectionResourceLock: "leases",
		LeaseDuration:              &o.LeaderElectLease,
		RenewDeadline:              &o.LeaderElectRenew,
		RetryPeriod:                &o.LeaderElectRetry,
		// The lease is given up at a stop, so that another replica goes on at once.
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cacheOptions(o),
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	}
	if o.servesWebhooks() {
		options.WebhookServer = webhook.NewServer(webhook.Options{
			Port: o.WebhookPort, Host: o.WebhookHost, CertDir: o.WebhookCertDir, TLSOpts: tlsOptions,
		})
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	// Without any check the probes would be answered with 404, which is "not ready".
	if err := errors.Join(mgr.AddReadyzCheck("ping", healthz.Ping), mgr.AddHealthzCheck("ping", healthz.Ping)); err != nil {
		return nil, err
	}
	if !o.servesWebhooks() {
		return mgr, nil
	}
	started := mgr.GetWebhookServer().StartedChecker()
	if err := errors.Join(mgr.AddReadyzCheck("webhook", started), mgr.AddHealthzCheck("webhook", started)); err != nil {
		return nil, err
	}
	return mgr, nil
}

func restConfig(o *Options) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = o.KubeAPIQPS, o.KubeAPIBurst, "ingot-manager"
	return config, nil
}

// cacheOptions: Secrets and ConfigMaps are cached only where Ingot has labelled
// them as a BMC's.
func cacheOptions(o *Options) cache.Options {
	labelled, err := labels.NewRequirement(infrav1.BMCCredentialsLabel, selection.Exists, nil)
	if err != nil { // the label is a constant
		return cache.Options{}
	}
	selected := cache.ByObject{Label: labels.NewSelector().Add(*labelled)}
	out := cache.Options{
		SyncPeriod: &o.SyncPeriod,
		ByObject:   map[client.Object]cache.ByObject{&corev1.Secret{}: selected, &corev1.ConfigMap{}: selected},
	}
	if o.Namespace != "" {
		out.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return out
}

func addControllers(ctx context.Context, mgr manager.Manager, o *Options) error {
	observer, err := bmcMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Observer: observer})
	if err := mgr.Add(closer{pool}); err != nil {
		return err
	}
	concurrency := func(n int) controller.Options { return controller.Options{MaxConcurrentReconciles: n} }
	recorder := mgr.GetEventRecorder("ingot")
	return errors.Join(
		(&host.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), BMC: pool, Recorder: recorder, Clock: clock.RealClock{},
			Policy: o.Policy, Poll: o.PowerPoll, NewID: uuid.NewString, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, concurrency(o.HostConcurrency)),
		(&machine.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: recorder, Clock: clock.RealClock{},
			NewID: uuid.NewString, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(ctx, mgr, concurrency(o.MachineConcurrency)),
		(&cluster.Reconciler{
			Client: mgr.GetClient(), Recorder: recorder, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(ctx, mgr, concurrency(o.ClusterConcurrency)),
		(&template.Reconciler{
			Client: mgr.GetClient(), WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, concurrency(o.MachineTemplateConcurrency)),
	)
}

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

// addAgentAPI serves agents on every replica: each write goes by optimistic lock.
func addAgentAPI(mgr manager.Manager, o *Options, keys token.Keys, pins []token.Pin, sockets *Sockets) error {
	certificate, err := token.LoadCertificate(o.AgentKeyDir)
	if err != nil {
		return err
	}
	server := session.New(session.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Keys: keys, Pins: pins, Address: o.AgentAddress,
		Recorder: mgr.GetEventRecorder("ingot"), Clock: clock.RealClock{}, Log: mgr.GetLogger().WithName("agent-api"),
	})
	return mgr.Add(everywhere(func(ctx context.Context) error { return server.Serve(ctx, sockets.Agent, certificate) }))
}

// everywhere runs a function on every replica, leader or not.
type everywhere func(context.Context) error

// Start runs the function.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false: see everywhere.
func (everywhere) NeedLeaderElection() bool { return false }
