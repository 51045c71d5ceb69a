// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/controlplane"
)

// An endpoint is an address at which an API server listens, or will listen: the
// load balancer before a control plane.
type endpoint struct {
	address  string
	listener *gate
	server   *http.Server
	// cluster behind it; nil: none yet. The plane's lock guards it.
	cluster *cluster
}

// Reserve takes a port for the API server of a cluster to come. It belongs to the
// plane until Release; connections are reset until a control plane is behind it.
func (p *Plane) Reserve() (netip.AddrPort, error) {
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("reserve an endpoint: %w", err)
	}
	at := netip.AddrPortFrom(p.cfg.Address, uint16(ports[0]))
	return at, p.reserve(at)
}

func (p *Plane) reserve(at netip.AddrPort) error {
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", at.String())
	if err != nil {
		return fmt.Errorf("reserve an endpoint: %w", err)
	}
	e := &endpoint{address: at.String(), listener: &gate{Listener: inner, conns: map[net.Conn]struct{}{}}}
	e.server = &http.Server{
		Handler: p.handler, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"h2", "http/1.1"},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				if e.cluster == nil {
					return nil, errors.New("no control plane yet")
				}
				return e.cluster.tlsConfig(hello.ServerName)
			},
		},
		ErrorLog: quietLog(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endpoints[e.address] = e
	p.tasks.Go(func() { _ = e.server.ServeTLS(e.listener, "", "") }) // ends with close
	return nil
}

// Release ends the cluster at an endpoint, with all that was in it, and gives the
// port back.
func (p *Plane) Release(at netip.AddrPort) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[at.String()]
	if e == nil {
		return fmt.Errorf("release endpoint: %s is not reserved", at)
	}
	delete(p.endpoints, e.address)
	if e.cluster != nil {
		p.manager.DeleteResourceGroup(e.cluster.group)
	}
	return e.close()
}

// endpointOf finds the endpoint that a kubeadm configuration names (host:port, the
// port being 6443 by default). The lock is held.
func (p *Plane) endpointOf(name string) (*endpoint, error) {
	if !strings.Contains(name, ":") {
		name = net.JoinHostPort(name, strconv.Itoa(defaultAPIPort))
	}
	if e := p.endpoints[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("no load balancer at %s", name)
}

func (e *endpoint) close() error {
	e.listener.set(false)
	if err := e.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// split serves API and etcd on one port, as a control plane behind port forwarding
// looks.
func split(api, etcd http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			etcd.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// A gate is a listener that resets connections while it is shut, those that are
// open when it is being shut included.
type gate struct {
	net.Listener

	mu    sync.Mutex
	open  bool
	conns map[net.Conn]struct{}
}

// set opens or shuts the gate.
func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	if open {
		return
	}
	for c := range g.conns {
		_ = c.Close()
	}
	clear(g.conns)
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		open := g.open
		if open {
			g.conns[c] = struct{}{}
		}
		g.mu.Unlock()
		if open {
			return &passed{Conn: c, gate: g}, nil
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as from a load balancer without servers
		}
		_ = c.Close()
	}
}

// passed is a connection that went through a gate.
type passed struct {
	net.Conn
	gate *gate
}

// Close implements net.Conn.
func (c *passed) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c.Conn)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
