// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// DefaultPort is the port of the server behind the Service.
const DefaultPort = 9444

// Handler is a handler of one hook.
type Handler = server.ExtensionHandler

// Mount contains the handlers of one ExtensionConfig.
type Mount struct {
	// Path is spec.clientConfig.service.path of the ExtensionConfig without a final slash; "" is
	// the root.
	Path     string
	Handlers []Handler
}

// Options configures a Server.
type Options struct {
	// Host and Port are the listen address. The defaults are all addresses and DefaultPort.
	Host string
	Port int
	// CertDir contains the certificate CertName and its key KeyName; the server reloads them when
	// they change. If ClientCAName is set, clients need a certificate of that CA bundle (mTLS).
	CertDir, CertName, KeyName, ClientCAName string
	TLSOpts                                  []func(*tls.Config)

	Mounts  []Mount
	Metrics *Metrics
	Log     logr.Logger
}

// Server serves the runtime extension: Cluster API's library with a guard before each handler. It
// is a manager.Runnable on every replica.
type Server struct {
	listener webhook.Server
	mounts   []*server.Server
	catalog  *runtimecatalog.Catalog
}

// New returns a server. It returns an error if a mount has no valid handlers.
func New(o Options) (*Server, error) {
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("start the runtime extension: %w", err)
	}
	s := &Server{catalog: catalog}
	budget := newBudget()
	for _, mount := range o.Mounts {
		library, err := server.New(server.Options{
			Catalog: catalog, Host: o.Host, Port: o.Port, CertDir: o.CertDir, CertName: o.CertName, KeyName: o.KeyName,
			ClientCAName: o.ClientCAName, TLSOpts: o.TLSOpts,
		})
		if err != nil {
			return nil, fmt.Errorf("start the runtime extension: %w", err)
		}
		if s.listener == nil {
			s.listener = library.Server
		}
		kinds, err := register(catalog, library, mount)
		if err != nil {
			return nil, fmt.Errorf("start the runtime extension: %w", err)
		}
		library.Server = &mounted{Server: s.listener, prefix: mount.Path, kinds: kinds, guard: guard{budget: budget, metrics: o.Metrics, log: o.Log}}
		s.mounts = append(s.mounts, library)
	}
	if len(s.mounts) == 0 {
		return nil, errors.New("start the runtime extension: no handlers")
	}
	return s, nil
}

// envelope contains the apiVersion and kinds of a hook. hasCluster reports that its requests contain
// a Cluster.
type envelope struct {
	hook, apiVersion, request, response string
	hasCluster                          bool
}

// register adds the handlers to the library, and returns the envelope of each path.
func register(catalog *runtimecatalog.Catalog, library *server.Server, mount Mount) (map[string]envelope, error) {
	kinds := map[string]envelope{}
	for _, handler := range append([]Handler{{Hook: runtimehooksv1.Discovery}}, mount.Handlers...) {
		hook, err := catalog.GroupVersionHook(handler.Hook)
		if err != nil {
			return nil, err
		}
		request, requestErr := catalog.Request(hook)
		response, responseErr := catalog.Response(hook)
		withCluster, clusterErr := hasCluster(catalog, hook)
		if err := errors.Join(requestErr, responseErr, clusterErr); err != nil {
			return nil, err
		}
		kinds[runtimecatalog.GVHToPath(hook, handler.Name)] = envelope{
			hook: hook.Hook, apiVersion: request.GroupVersion().String(), request: request.Kind, response: response.Kind, hasCluster: withCluster,
		}
		if handler.HandlerFunc == nil {
			continue // the library handles discovery
		}
		if err := library.AddExtensionHandler(handler); err != nil {
			return nil, fmt.Errorf("register handler %s: %w", handler.Name, err)
		}
	}
	return kinds, nil
}

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	for _, mount := range s.mounts {
		// This registers the handlers; mounted.Start does nothing.
		if err := mount.Start(ctx); err != nil {
			return fmt.Errorf("start the runtime extension: %w", err)
		}
	}
	if err := s.listener.Start(ctx); err != nil {
		return fmt.Errorf("start the runtime extension: %w", err)
	}
	return nil
}

// NeedLeaderElection returns false: every replica serves hooks.
func (s *Server) NeedLeaderElection() bool { return false }

// StartedChecker returns a check that the server listens.
func (s *Server) StartedChecker() healthz.Checker { return s.listener.StartedChecker() }

// mounted is the shared listener as one library server sees it: with a path prefix, and with a
// guard before each handler.
type mounted struct {
	webhook.Server
	prefix string
	kinds  map[string]envelope
	guard  guard
}

// Register implements webhook.Server.
func (m *mounted) Register(path string, library http.Handler) {
	g := m.guard
	g.envelope, g.next = m.kinds[path], library
	m.Server.Register(m.prefix+path, &g)
}

// Start does nothing: Server.Start starts the listener after all handlers are registered.
func (m *mounted) Start(context.Context) error { return nil }
