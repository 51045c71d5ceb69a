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

// endpoint is the load balancer in front of an API server.
type endpoint struct {
	address  string
	listener *gate
	server   *http.Server
	// cluster behind the endpoint; nil: none yet. The plane's lock guards it.
	cluster *cluster
}

// Reserve reserves a port for the API server of a future cluster until Release. Connections are reset
// until a control plane serves.
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

// Release deletes the cluster of an endpoint and frees the port.
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

// endpointOf returns the endpoint of a kubeadm configuration (host:port, default port 6443). The lock
// is held.
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

// split serves API and etcd on one port, like a control plane with port forwarding.
func split(api, etcd http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			etcd.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// gate is a listener that resets connections while it is closed, and the open ones when it closes.
type gate struct {
	net.Listener

	mu    sync.Mutex
	open  bool
	conns map[net.Conn]struct{}
}

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
			_ = tcp.SetLinger(0) // a reset, like a load balancer without backends
		}
		_ = c.Close()
	}
}

// passed is a connection that a gate has accepted.
type passed struct {
	net.Conn
	gate *gate
}

func (c *passed) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c.Conn)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
