// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Config describes an endpoint.
type Config struct {
	// Authority signs the certificate, Handler answers. Required.
	Authority *Authority
	Handler   http.Handler
	// Listener accepts plain TCP connections; the endpoint closes it. Nil: a free port of 127.0.0.1.
	Listener net.Listener
	// Relisten returns a new listener after Down. With a Listener and without Relisten, Down accepts
	// connections and breaks them at once.
	Relisten func() (net.Listener, error)
	// MaxTLS bounds the TLS version; 0: the newest.
	MaxTLS uint16
	// Plain serves HTTP without TLS; Authority is then unused.
	Plain bool
}

// Endpoint is a running server. It is safe for concurrent use.
type Endpoint struct {
	cfg    Config
	server *http.Server
	leaf   atomic.Pointer[tls.Certificate]
	serves sync.WaitGroup

	mu       sync.Mutex
	listener *gate
	held     int // socket that reserves the port while down, or -1
	down     bool
	closed   bool
	conns    map[net.Conn]struct{}
}

// Start listens and serves.
func Start(cfg Config) (*Endpoint, error) {
	l := cfg.Listener
	if l == nil {
		var err error
		if l, err = listen("127.0.0.1:0"); err != nil {
			return nil, err
		}
		address := l.Addr().String()
		cfg.Relisten = func() (net.Listener, error) { return listen(address) }
	}
	e := &Endpoint{cfg: cfg, listener: &gate{Listener: l}, held: -1}
	e.leaf.Store(&cfg.Authority.leaf)
	e.server = &http.Server{
		Handler:           cfg.Handler,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		TLSConfig: &tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return e.leaf.Load(), nil },
			MinVersion:     tls.VersionTLS10, // old BMCs support nothing newer; the client must refuse
			MaxVersion:     cfg.MaxTLS,
			NextProtos:     []string{"http/1.1"},
			// A resumed session would not show a changed certificate.
			SessionTicketsDisabled: true,
		},
		ConnState: e.track,
		// The client reports failed handshakes.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	e.serve(e.listener)
	return e, nil
}

// serve must be called with the lock held or before e is shared.
func (e *Endpoint) serve(l net.Listener) {
	e.serves.Add(1)
	go func() {
		defer e.serves.Done()
		// The goroutine ends with Down or Close.
		if e.cfg.Plain {
			_ = e.server.Serve(l)
			return
		}
		_ = e.server.ServeTLS(l, "", "")
	}()
}

func (e *Endpoint) track(c net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch state {
	case http.StateNew:
		if e.conns == nil {
			e.conns = map[net.Conn]struct{}{}
		}
		e.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		if delete(e.conns, c); len(e.conns) == 0 {
			e.conns = nil
		}
	}
}

// Addr returns the address of the listener.
func (e *Endpoint) Addr() net.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listener.Addr()
}

// SetAuthority changes the certificate and breaks all connections, as a restart of the BMC's web
// server does.
func (e *Endpoint) SetAuthority(a *Authority) {
	e.leaf.Store(&a.leaf)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.breakAll()
}

// breakAll must be called with the lock held.
func (e *Endpoint) breakAll() {
	for c := range e.conns {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn() // without the wait for an alert to be sent
		}
		_ = c.Close()
	}
}

// Down breaks all connections and refuses new ones, until Up.
func (e *Endpoint) Down() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down || e.closed {
		return
	}
	e.down = true
	if e.cfg.Relisten == nil {
		e.listener.shut.Store(true)
	} else {
		if e.cfg.Listener == nil {
			e.held = hold(e.listener.Addr())
		}
		_ = e.listener.Close()
	}
	e.breakAll()
}

// Up ends Down. It fails if the port was taken in between.
func (e *Endpoint) Up() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.down || e.closed {
		return nil
	}
	if e.cfg.Relisten == nil {
		e.listener.shut.Store(false)
		e.down = false
		return nil
	}
	l, err := e.cfg.Relisten()
	if err != nil {
		return fmt.Errorf("listen again: %w", err)
	}
	e.release()
	e.listener, e.down = &gate{Listener: l}, false
	e.serve(e.listener)
	return nil
}

func (e *Endpoint) release() {
	if e.held >= 0 {
		_ = syscall.Close(e.held)
		e.held = -1
	}
}

// Close ends the endpoint and breaks its connections.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	e.closed = true
	e.release()
	_ = e.listener.Close()
	e.mu.Unlock()
	err := e.server.Close()
	e.serves.Wait()
	if errors.Is(err, net.ErrClosed) { // the server has not noticed yet that its listener is closed
		return nil
	}
	return err
}

// gate is a listener that can break what it accepts.
type gate struct {
	net.Listener
	shut atomic.Bool
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil || !g.shut.Load() {
			return c, err
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // a reset instead of a FIN
		}
		_ = c.Close()
	}
}

// soReusePort is Linux's SO_REUSEPORT, which package syscall does not define.
const soReusePort = 0xf

func reusePort(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort, 1)
}

// listen lets another socket of this process bind the port too, see hold.
func listen(address string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = reusePort(fd) }); e != nil {
			return e
		}
		return err
	}}
	l, err := lc.Listen(context.Background(), "tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// hold binds a socket that does not listen, so that connections are refused and no other process
// gets the port. It returns -1 if that fails.
func hold(addr net.Addr) int {
	a, ok := addr.(*net.TCPAddr)
	if !ok || a.IP.To4() == nil {
		return -1
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	if reusePort(uintptr(fd)) != nil || syscall.Bind(fd, &syscall.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}) != nil {
		_ = syscall.Close(fd)
		return -1
	}
	return fd
}
