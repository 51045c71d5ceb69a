// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	goruntime "runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1beta1 "github.com/ingot-metal/ingot/api/v1beta1"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks"
)

const leaderLock = "controller-leader-election-ingot"

// cacheSyncTimeout allows for thousands of hosts and a slow API server.
const cacheSyncTimeout = 5 * time.Minute

// Scheme returns a scheme with every type that the manager uses.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, ipamv1.AddToScheme, controlplanev1.AddToScheme, runtimev1.AddToScheme,
		infrav1.AddToScheme, infrav1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

func newManager(o *Options) (manager.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	rest, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	tlsOptions, diagnostics, err := flags.GetManagerOptions(o.Manager)
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                 scheme,
		Metrics:                *diagnostics,
		HealthProbeBindAddress: o.HealthAddress,
		PprofBindAddress:       o.ProfilerAddress,
		Controller: config.Controller{
			UsePriorityQueue: ptr.To(true), // changed objects come before periodic reconciles
			CacheSyncTimeout: cacheSyncTimeout,
		},
		// Boot servers need no leader.
		LeaderElection:             o.LeaderElect && o.Has(RoleControllers),
		LeaderElectionID:           leaderLock,
		LeaderElectionNamespace:    o.leaseNamespace(),
		LeaderElectionResourceLock: "leases",
		LeaseDuration:              &o.LeaderElectLease,
		RenewDeadline:              &o.LeaderElectRenew,
		RetryPeriod:                &o.LeaderElectRetry,
		// Another replica can then take over immediately.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(stopTimeout),
		Cache:                         cacheOptions(o),
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	}
	if o.servesWebhooks() {
		options.WebhookServer = webhooks.WithLimits(webhook.NewServer(webhook.Options{
			Port: o.WebhookPort, Host: o.WebhookHost, TLSOpts: tlsOptions,
			CertDir: o.WebhookCertDir, CertName: o.WebhookCertName, KeyName: o.WebhookKeyName,
		}))
	}
	if o.ContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	mgr, err := ctrl.NewManager(rest, options)
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	return truncatingManager{mgr}, addChecks(mgr, o)
}

func restConfig(o *Options) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = o.KubeAPIQPS, o.KubeAPIBurst, "ingot-manager"
	return config, nil
}

// stopTimeout limits a graceful stop: running BMC calls end, sessions are closed (bmcCloseTimeout), and
// controllers save their results. It is less than the Pod's terminationGracePeriodSeconds.
const stopTimeout = 40 * time.Second

// cacheOptions returns the cache options. Only Secrets and ConfigMaps with Ingot's label are cached.
func cacheOptions(o *Options) cache.Options {
	hasLabel, err := labels.NewRequirement(infrav1.BMCCredentialsLabel, selection.Exists, nil)
	if err != nil { // the label is a constant
		return cache.Options{}
	}
	selected := cache.ByObject{Label: labels.NewSelector().Add(*hasLabel)}
	out := cache.Options{
		SyncPeriod: &o.SyncPeriod, DefaultTransform: slim,
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: selected, &corev1.ConfigMap{}: selected},
	}
	if o.Namespace != "" {
		out.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return out
}

// slim removes the managed fields of cached Cluster API objects, which are numerous. Those of Ingot's
// objects are needed by the migration (addMigrator).
func slim(o any) (any, error) {
	switch o.(type) {
	case *clusterv1.Cluster, *clusterv1.ClusterClass, *clusterv1.Machine, *clusterv1.MachineDeployment, *ipamv1.IPAddress, *ipamv1.IPAddressClaim:
		return cache.TransformStripManagedFields()(o)
	}
	return o, nil
}
