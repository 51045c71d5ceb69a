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

// DefaultPort is where Cluster API asks, through the Service.
const DefaultPort = 9444

// Handler is one handler of one hook: see the library.
type Handler = server.ExtensionHandler

// A Mount is what one ExtensionConfig finds: its handlers, below a path.
type Mount struct {
	// Path is spec.clientConfig.service.path of the ExtensionConfig, without a slash
	// at its end; empty: the root.
	Path     string
	Handlers []Handler
}

// Options of a Server.
type Options struct {
	// Host and Port to listen on; no host: all addresses; no port: DefaultPort.
	Host string
	Port int
	// CertDir has the certificate (CertName) and its key (KeyName), which are read
	// again when they change, and where it is set the bundle ClientCAName of the
	// authorities whose clients alone may ask (mTLS).
	CertDir, CertName, KeyName, ClientCAName string
	TLSOpts                                  []func(*tls.Config)

	Mounts  []Mount
	Metrics *Metrics
	Log     logr.Logger
}

// Server is the runtime extension's server: Cluster API's library, with our guard
// around each of its handlers. It is a manager's Runnable that needs no leader.
type Server struct {
	listener webhook.Server
	mounts   []*server.Server
	catalog  *runtimecatalog.Catalog
}

// New makes a server of mounts that are fit for discovery.
func New(o Options) (*Server, error) {
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("runtime extension: %w", err)
	}
	s := &Server{catalog: catalog}
	budget := newBudget()
	for _, mount := range o.Mounts {
		library, err := server.New(server.Options{
			Catalog: catalog, Host: o.Host, Port: o.Port, CertDir: o.CertDir, CertName: o.CertName, KeyName: o.KeyName,
			ClientCAName: o.ClientCAName, TLSOpts: o.TLSOpts,
		})
		if err != nil {
			return nil, fmt.Errorf("runtime extension: %w", err)
		}
		if s.listener == nil {
			s.listener = library.Server
		}
		kinds, err := register(catalog, library, mount)
		if err != nil {
			return nil, fmt.Errorf("runtime extension: %w", err)
		}
		library.Server = &mounted{Server: s.listener, prefix: mount.Path, kinds: kinds, guard: guard{budget: budget, metrics: o.Metrics, log: o.Log}}
		s.mounts = append(s.mounts, library)
	}
	if len(s.mounts) == 0 {
		return nil, errors.New("runtime extension: it has no handler")
	}
	return s, nil
}

// envelope is how requests and responses of a hook call themselves.
type envelope struct {
	hook, apiVersion, request, response string
	// hasCluster: requests carry a Cluster.
	hasCluster bool
}

// register gives the library its handlers, and returns the envelope of each path.
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
			continue // the library answers discovery
		}
		if err := library.AddExtensionHandler(handler); err != nil {
			return nil, fmt.Errorf("handler %s: %w", handler.Name, err)
		}
	}
	return kinds, nil
}

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	for _, mount := range s.mounts {
		// It registers its handlers, and starts what mounted.Start is.
		if err := mount.Start(ctx); err != nil {
			return fmt.Errorf("runtime extension: %w", err)
		}
	}
	if err := s.listener.Start(ctx); err != nil {
		return fmt.Errorf("runtime extension: %w", err)
	}
	return nil
}

// NeedLeaderElection is false: every replica answers.
func (s *Server) NeedLeaderElection() bool { return false }

// StartedChecker says whether the server answers on its port.
func (s *Server) StartedChecker() healthz.Checker { return s.listener.StartedChecker() }

// mounted is the listener as one library server sees it: below a path, and with the
// guard before every handler.
type mounted struct {
	webhook.Server
	prefix string
	kinds  map[string]envelope
	guard  guard
}

// Register puts a handler of the library behind a guard.
func (m *mounted) Register(path string, library http.Handler) {
	g := m.guard
	g.envelope, g.next = m.kinds[path], library
	m.Server.Register(m.prefix+path, &g)
}

// Start does nothing: the listener is started once all are registered.
func (m *mounted) Start(context.Context) error { return nil }
