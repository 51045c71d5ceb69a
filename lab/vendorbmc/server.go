// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendorbmc

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
)

// maxBody bounds the body of a request, including images, in bytes.
const maxBody = 32 << 20

// Config describes one BMC.
type Config struct {
	// Authority signs the certificate. Required.
	Authority *endpoint.Authority
	// Machine is the server. Required.
	Machine machine.Machine
	// Listener accepts plain TCP connections; the BMC closes it. Nil: a free port of 127.0.0.1.
	Listener net.Listener
	// Username and Password of the only account. A webhook has only a secret, which is Password.
	Username, Password string
	// Agent reports that the operating system runs AMT's agent; AMT then offers graceful power
	// actions.
	Agent bool
	// NonceUses is how often AMT accepts a nonce; 0: always.
	NonceUses int
}

// Server is a running BMC. It is safe for concurrent use.
type Server struct {
	endpoint *endpoint.Endpoint
	handler  http.Handler
	closed   chan struct{}
	handlers sync.WaitGroup

	mu       sync.Mutex
	stopped  bool
	faults   fault.List
	requests int
}

func start(cfg Config, handler http.Handler) (*Server, error) {
	if cfg.Authority == nil || cfg.Machine == nil || cfg.Password == "" {
		return nil, errors.New("start BMC: authority, machine and password are required")
	}
	s := &Server{handler: handler, closed: make(chan struct{})}
	var err error
	s.endpoint, err = endpoint.Start(endpoint.Config{Authority: cfg.Authority, Handler: s, Listener: cfg.Listener})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Host returns host:port.
func (s *Server) Host() string { return s.endpoint.Addr().String() }

// SetFaults replaces the faults. Faults that only concern Redfish have no effect.
func (s *Server) SetFaults(faults ...fault.Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.Set(faults...)
}

// Requests counts the requests so far.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// SetAuthority changes the certificate and breaks all connections.
func (s *Server) SetAuthority(a *endpoint.Authority) { s.endpoint.SetAuthority(a) }

// Close stops the BMC and breaks its connections.
func (s *Server) Close() error {
	s.mu.Lock()
	stopped := s.stopped
	s.stopped = true
	s.mu.Unlock()
	if stopped {
		return nil
	}
	close(s.closed)
	err := s.endpoint.Close()
	s.handlers.Wait()
	return err
}

// ServeHTTP applies the faults.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.handlers.Add(1)
	defer s.handlers.Done()
	s.requests++
	f := s.faults.For(r.Method, r.URL.Path)
	s.mu.Unlock()
	// net/http notices a closed connection only after the body was read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !f.Before(w, r, s.closed) {
		return
	}
	answer := &recorder{header: http.Header{}, status: http.StatusOK}
	s.handler.ServeHTTP(answer, r)
	if f.LoseReply {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.header)
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// recorder holds an answer before it is sent.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
