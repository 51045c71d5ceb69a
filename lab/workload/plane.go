// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryapi "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server/api"
	inmemoryetcd "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server/etcd"
)

// Config describes a plane. Each duration states its default for 0.
type Config struct {
	// Address is a local address for the API servers. Required.
	Address netip.Addr
	// Retry is the pause between two attempts of kubeadm; 500 ms.
	Retry time.Duration
	// Report is the interval of the kubelets' heartbeats; 0: only at their start.
	Report time.Duration
}

// Plane serves the API servers of workload clusters. It is safe for concurrent use.
type Plane struct {
	cfg     Config
	manager inmemoryruntime.Manager
	handler http.Handler
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	// orphans wakes up the collector of pods without a node.
	orphans chan struct{}

	mu sync.Mutex
	// endpoints by host:port.
	endpoints map[string]*endpoint
	// machines by cloud-init's instance-id: the contents of their disks.
	machines map[string]*machine
	// clusters counts the clusters, to name them.
	clusters int
}

// Start starts a plane without clusters. It runs until Close, even if ctx ends.
func Start(ctx context.Context, cfg Config) (*Plane, error) {
	if !cfg.Address.IsValid() || cfg.Address.IsUnspecified() {
		return nil, errors.New("workload plane: one address to listen on is required")
	}
	cfg.Retry = cmp.Or(cfg.Retry, 500*time.Millisecond)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("workload plane: %w", err)
		}
	}
	p := &Plane{
		cfg: cfg, manager: inmemoryruntime.NewManager(scheme), orphans: make(chan struct{}, 1),
		endpoints: map[string]*endpoint{}, machines: map[string]*machine{},
	}
	ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	quiet := logr.NewContext(ctx, logr.Discard())
	if err := p.manager.Start(quiet); err != nil {
		p.cancel()
		return nil, fmt.Errorf("workload plane: %w", err)
	}
	api := inmemoryapi.NewAPIServerHandler(p.manager, logr.Discard(), p.groupOf)
	etcd := inmemoryetcd.NewEtcdServerHandler(p.manager, logr.Discard(), p.groupOf)
	p.handler = split(api, etcd)
	if err := p.watchNodes(ctx); err != nil {
		p.cancel()
		return nil, fmt.Errorf("workload plane: %w", err)
	}
	return p, nil
}

// Close stops all API servers and waits for the plane's goroutines. Servers that use Boot must be off
// before.
func (p *Plane) Close() error {
	p.cancel()
	p.mu.Lock()
	var errs []error
	for _, e := range p.endpoints {
		errs = append(errs, e.close())
	}
	p.mu.Unlock()
	p.tasks.Wait()
	return errors.Join(errs...)
}

// groupOf returns the resource group of the cluster at a request's address.
func (p *Plane) groupOf(address string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[address]
	if e == nil || e.cluster == nil {
		return "", fmt.Errorf("no cluster at %s", address)
	}
	return e.cluster.group, nil
}
