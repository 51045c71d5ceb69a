// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// DefaultMaxConns bounds the connections that are served at once; what comes on
	// top waits in the kernel's queue.
	DefaultMaxConns = 8192
	// DefaultMaxConnsPerClient bounds those of one address; what comes on top is
	// told 503.
	DefaultMaxConnsPerClient = 256
	// DefaultWriteStall ends a connection whose client takes less than a piece for
	// so long: 17 KiB a second. A whole transfer may take as long as it takes.
	DefaultWriteStall = time.Minute
	// piece is how many bytes go out under one deadline.
	piece = 1 << 20
	// refusalTimeout is how long the 503 may take.
	refusalTimeout = time.Second
)

const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// limiter is a listener whose connections are bounded in number, and end when
// nothing moves. It hands out connections that still have the kernel's ways of
// sending files.
type limiter struct {
	net.Listener
	perClient int
	stall     time.Duration
	log       *slog.Logger
	places    chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc

	mu      sync.Mutex
	clients map[netip.Addr]int
	told    time.Time // of a client that has too many
}

// tellEvery spaces what is told of clients that have too many connections.
const tellEvery = time.Minute

func newLimiter(l net.Listener, o Options) *limiter {
	lim := &limiter{Listener: l, perClient: o.MaxConnsPerClient, stall: o.WriteStall, log: o.Log,
		places: make(chan struct{}, o.MaxConns), clients: map[netip.Addr]int{}}
	lim.ctx, lim.cancel = context.WithCancel(context.Background())
	return lim
}

// Accept implements net.Listener.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.ctx.Done():
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.places
			return nil, err
		}
		client := addressOf(c)
		if !l.enter(client) {
			l.tell(client)
			go l.refuse(c)
			continue
		}
		return l.wrap(c, client), nil
	}
}

// Close implements net.Listener.
func (l *limiter) Close() error {
	l.cancel()
	return l.Listener.Close()
}

func (l *limiter) enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[client] >= l.perClient {
		return false
	}
	l.clients[client]++
	return true
}

// tell says that a client is refused: one that hides many, such as a load balancer before
// BMCs, needs more than one may have.
func (l *limiter) tell(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.told) >= tellEvery {
		l.told = now
		l.log.Warn("Refused an HTTP client: it has too many connections", "client", client, "most", l.perClient)
	}
}

func (l *limiter) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
	<-l.places
}

// refuse says so, and keeps its place until that is done: a flood does not make
// goroutines without bound.
func (l *limiter) refuse(c net.Conn) {
	defer func() { <-l.places }()
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(refusalTimeout))
	_, _ = io.WriteString(c, refusal)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10)) // or the 503 is lost to a reset
}

func (l *limiter) wrap(c net.Conn, client netip.Addr) net.Conn {
	var once sync.Once
	lc := limitedConn{Conn: c, stall: l.stall, leave: func() { once.Do(func() { l.leave(client) }) }}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &limitedTCP{limitedConn: lc, tcp: tcp}
	}
	return &lc
}

// limitedConn gives each write a deadline, and its place back at the end.
type limitedConn struct {
	net.Conn
	stall time.Duration
	leave func()
}

// Write implements net.Conn.
func (c *limitedConn) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return total, err
		}
		n, err := c.Conn.Write(p[:min(len(p), piece)])
		total += n
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// limitedTCP sends files by the kernel (sendfile), a piece at a time.
type limitedTCP struct {
	limitedConn
	tcp *net.TCPConn
}

// CloseWrite is asked for by net/http, so that a refusal is read before the
// reset.
func (c *limitedTCP) CloseWrite() error { return c.tcp.CloseWrite() }

// ReadFrom implements io.ReaderFrom, which net/http looks for. Only an
// io.LimitedReader of an os.File, as it has, goes without a copy.
func (c *limitedTCP) ReadFrom(src io.Reader) (int64, error) {
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	var total int64
	for whole.N > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return total, err
		}
		part := &io.LimitedReader{R: whole.R, N: min(whole.N, piece)}
		n, err := c.tcp.ReadFrom(part)
		total += n
		whole.N -= n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

func addressOf(c net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}
