// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// tlsHandshake is the first byte of a TLS connection: the type of a handshake record
// (RFC 8446 section 5.1). No request of HTTP begins with it.
const tlsHandshake = 0x16

// tlsMux is a listener for TLS and for plain HTTP on one port. Boot servers forward one address
// only, and live systems trust no certificate of Ingot.
type tlsMux struct {
	inner  net.Listener
	config *tls.Config
	// ready passes connections whose first byte has arrived, failed errors of Accept.
	ready  chan net.Conn
	failed chan error
	closed chan struct{}
	once   sync.Once
	// running counts the accept loop and the silent connections.
	running sync.WaitGroup
	mu      sync.Mutex
	silent  map[net.Conn]struct{} // waiting for their first byte
}

// newTLSMux starts to accept connections. Close stops it.
func newTLSMux(inner net.Listener, config *tls.Config) *tlsMux {
	l := &tlsMux{inner: inner, config: config, ready: make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}), silent: map[net.Conn]struct{}{}}
	l.running.Go(l.run)
	return l
}

func (l *tlsMux) run() {
	for {
		conn, err := l.inner.Accept()
		if err != nil {
			select {
			case l.failed <- err: // http.Server waits after a temporary error
			case <-l.closed:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-l.closed:
				return
			default:
			}
			continue
		}
		l.mu.Lock()
		l.silent[conn] = struct{}{}
		select {
		case <-l.closed: // accepted while Close was closing the silent ones
			_ = conn.Close()
		default:
		}
		l.mu.Unlock()
		l.running.Go(func() { l.peek(conn) })
	}
}

// peek waits for the first byte, at most headerTimeout.
func (l *tlsMux) peek(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(headerTimeout))
	peeked := &peekedConn{Conn: conn, buffered: bufio.NewReaderSize(conn, 16)}
	first, err := peeked.buffered.Peek(1)
	l.mu.Lock()
	delete(l.silent, conn)
	l.mu.Unlock()
	if err != nil || conn.SetReadDeadline(time.Time{}) != nil {
		_ = conn.Close()
		return
	}
	out := net.Conn(peeked)
	if first[0] == tlsHandshake {
		out = tls.Server(peeked, l.config)
	}
	select {
	case l.ready <- out:
	case <-l.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (l *tlsMux) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It does not wait for running.
func (l *tlsMux) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.inner.Close()
	l.mu.Lock()
	for conn := range l.silent {
		_ = conn.Close()
	}
	l.mu.Unlock()
	return err
}

// Addr implements net.Listener.
func (l *tlsMux) Addr() net.Addr { return l.inner.Addr() }

// peekedConn reads the peeked bytes again.
type peekedConn struct {
	net.Conn
	buffered *bufio.Reader
}

// NetConn returns the wrapped connection.
func (c *peekedConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *peekedConn) Read(b []byte) (int, error) { return c.buffered.Read(b) }

// requireTLS rejects plain HTTP, except for the paths that live systems fetch.
func requireTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && !strings.HasPrefix(r.URL.Path, agentapi.PathLiveData) {
			refuse(w, badRequest("the agent API requires TLS"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
