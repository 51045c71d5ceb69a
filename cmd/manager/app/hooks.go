// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/runtimehooks"
	"github.com/ingot-metal/ingot/runtimehooks/inplace"
	"github.com/ingot-metal/ingot/runtimehooks/lifecycle"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// HookOptions configures the role runtime-extension.
type HookOptions struct {
	Host     string
	Port     int
	CertDir  string
	CertName string
	KeyName  string
	// ClientCA is a file name in CertDir. If it is empty, clients need no certificate.
	ClientCA string
	// ReservationExpiry is the lifetime of a reservation for a Cluster that is not created.
	ReservationExpiry time.Duration
}

func defaultHookOptions() HookOptions {
	return HookOptions{Port: runtimehooks.DefaultPort, CertDir: "/tmp/runtime-hooks/serving-certs", CertName: "tls.crt", KeyName: "tls.key",
		ReservationExpiry: reservation.DefaultExpiry}
}

func (h *HookOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&h.Host, "hooks-host", h.Host, "Listen address of the runtime extension. If empty, it listens on all addresses.")
	fs.IntVar(&h.Port, "hooks-port", h.Port, "Port of the runtime extension.")
	fs.StringVar(&h.CertDir, "hooks-cert-dir", h.CertDir, "Directory with the certificate and key of the runtime extension.")
	fs.StringVar(&h.CertName, "hooks-cert-name", h.CertName, "File name of the certificate in --hooks-cert-dir.")
	fs.StringVar(&h.KeyName, "hooks-key-name", h.KeyName, "File name of the private key in --hooks-cert-dir.")
	fs.StringVar(&h.ClientCA, "hooks-client-ca-name", h.ClientCA, "File name in --hooks-cert-dir of the CA certificates for clients (mTLS). If empty, clients need no certificate.")
	fs.DurationVar(&h.ReservationExpiry, "hooks-reservation-expiry", h.ReservationExpiry, "Time after which the reservation of hosts for a Cluster that is not created expires; at least 1m.")
}

func (h *HookOptions) validate() error {
	const ports = 1 << 16
	if h.Port < 1 || h.Port >= ports {
		return fmt.Errorf("--hooks-port: %d must be from 1 to 65535", h.Port)
	}
	if h.ReservationExpiry < time.Minute {
		return fmt.Errorf("--hooks-reservation-expiry: %s must be at least 1m", h.ReservationExpiry)
	}
	return nil
}

// hasAgents reports whether the process serves agents, by the agent API or a boot server, and needs
// the agent keys.
func (o *Options) hasAgents() bool { return o.Has(RoleControllers) || o.Has(RoleBoot) }

// hookObjects returns the kinds that hooks read from the cache.
func hookObjects() []client.Object {
	return []client.Object{
		&infrav1.IngotHost{}, &infrav1.IngotHardware{}, &infrav1.IngotMachine{}, &infrav1.IngotReservation{}, &infrav1.IngotImage{},
		&infrav1.IngotCluster{}, &infrav1.IngotClusterTemplate{}, &infrav1.IngotMachineTemplate{}, &clusterv1.ClusterClass{},
	}
}

// setupHookCache fills the cache before the first call, which would otherwise wait.
func setupHookCache(ctx context.Context, c cache.Cache) error {
	for _, object := range hookObjects() {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T for the runtime extension: %w", object, err)
		}
	}
	return nil
}

// addHooksRole serves Cluster API's hooks on every replica.
func addHooksRole(ctx context.Context, mgr manager.Manager, o *Options) error {
	tlsOptions, _, err := flags.GetManagerOptions(o.Manager)
	if err != nil {
		return err
	}
	hookMetrics, err := runtimehooks.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	hosts := &reservation.HostCache{}
	if err := hosts.Watch(ctx, mgr.GetCache()); err != nil {
		return err
	}
	planner := &reservation.Planner{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Expiry: o.Hooks.ReservationExpiry,
		Hosts: hosts, WatchFilterValue: o.WatchFilter}
	inventory := lifecycle.Inventory{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Snapshot: planner.Snapshot}
	handlers := lifecycle.Handlers(lifecycle.Options{
		Inventory: inventory, Recorder: mgr.GetEventRecorder("ingot"), Contended: reservation.ErrContended, Planner: planner,
	})
	handlers = append(handlers, mutation.Handlers(mutation.Options{Images: inventory.Images, Choose: lifecycle.ChooseImage, Templates: inventory.Templates})...)
	server, err := runtimehooks.New(runtimehooks.Options{
		Host: o.Hooks.Host, Port: o.Hooks.Port, CertDir: o.Hooks.CertDir, CertName: o.Hooks.CertName, KeyName: o.Hooks.KeyName,
		// An unset variable of the manifest leaves a space.
		ClientCAName: strings.TrimSpace(o.Hooks.ClientCA), TLSOpts: tlsOptions, Metrics: hookMetrics, Log: mgr.GetLogger().WithName("hooks"),
		Mounts: []runtimehooks.Mount{
			{Handlers: handlers},
			{Path: inplace.MountPath, Handlers: inplace.Handlers(inplace.Options{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()})},
		},
	})
	if err != nil {
		return err
	}
	// The manager syncs the cache before it starts the server.
	if err := mgr.Add(server); err != nil {
		return err
	}
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		if err := mgr.Add(&registration{reader: mgr.GetAPIReader(), namespace: namespace, interval: registrationInterval}); err != nil {
			return err
		}
	}
	return mgr.AddReadyzCheck("hooks", server.StartedChecker())
}
