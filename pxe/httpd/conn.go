// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// DefaultMaxConns bounds the connections that are served at once; what comes on
	// top waits in the kernel's queue.
	DefaultMaxConns = 8192
	// DefaultMaxConnsPerClient bounds those of one address; what comes on top is
	// told 503.
	DefaultMaxConnsPerClient = 256
	// DefaultWriteStall ends a connection whose client takes nothing for so long. How
	// fast it takes does not count: in a crowd on one link each gets little.
	DefaultWriteStall = time.Minute
	// piece is how many bytes go out under one deadline, at the most.
	piece = 1 << 20
	// looks is how often it is tried, within that time, whether the client takes more:
	// the kernel says so by itself only once a third of its buffer is empty.
	looks = 4
	// refusalTimeout is how long the 503 may take.
	refusalTimeout = time.Second
)

const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// limiter is a listener whose connections are bounded in number, and end when
// nothing moves. It hands out connections that still have the kernel's ways of
// sending files.
type limiter struct {
	net.Listener
	stall  time.Duration
	log    *slog.Logger
	places chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	clients pxe.ClientLimit
	// told spaces what is logged of clients that have too many.
	told rate.Sometimes
}

func newLimiter(l net.Listener, o Options) *limiter {
	lim := &limiter{Listener: l, stall: o.WriteStall, log: o.Log, places: make(chan struct{}, o.MaxConns),
		clients: pxe.ClientLimit{Max: o.MaxConnsPerClient}, told: rate.Sometimes{Interval: time.Minute}}
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
		if !l.clients.Enter(client) {
			l.told.Do(func() {
				// A client that hides many, such as a load balancer before BMCs, needs more.
				l.log.Warn("Refused an HTTP client: it has too many connections", "client", client, "most", l.clients.Max)
			})
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

func (l *limiter) leave(client netip.Addr) {
	l.clients.Leave(client)
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

// limitedConn ends a write in which nothing moves, and gives its place back at the end.
type limitedConn struct {
	net.Conn
	stall time.Duration
	leave func()
}

// Write implements net.Conn.
func (c *limitedConn) Write(p []byte) (int, error) {
	n, err := c.whileMoving(int64(len(p)), func(done, most int64) (int64, error) {
		n, err := c.Conn.Write(p[done : done+most])
		return int64(n), err
	})
	return int(n), err
}

// whileMoving has so many bytes sent, a piece at a time, for as long as something moves.
// send is told how many are done, and sends at most so many more; of what its deadline
// cuts off it says how much went out, and the rest is sent the next time.
func (c *limitedConn) whileMoving(whole int64, send func(done, most int64) (int64, error)) (int64, error) {
	var done int64
	moved := time.Now()
	for done < whole {
		if err := c.SetWriteDeadline(time.Now().Add(c.stall / looks)); err != nil {
			return done, err
		}
		n, err := send(done, min(whole-done, piece))
		done += n
		if n > 0 {
			moved = time.Now()
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Since(moved) < c.stall:
		case err != nil || n == 0:
			return done, err
		}
	}
	return done, nil
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// limitedTCP sends files by the kernel (sendfile), a piece at a time.
type limitedTCP struct {
	limitedConn
	tcp kernelConn
}

// kernelConn is what more a net.TCPConn can.
type kernelConn interface {
	io.ReaderFrom
	CloseWrite() error
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
	file, ok := whole.R.(*os.File)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	n, err := c.whileMoving(whole.N, func(_, most int64) (int64, error) {
		return c.sendPart(file, most)
	})
	whole.N -= n
	return n, err
}

// sendPart sends the next bytes of a file. Where the kernel cannot, net.TCPConn reads them
// and writes them: what it has read and not written at the deadline is to be read again.
func (c *limitedTCP) sendPart(file *os.File, most int64) (int64, error) {
	part := &io.LimitedReader{R: file, N: most}
	n, err := c.tcp.ReadFrom(part)
	if lost := most - part.N - n; lost > 0 {
		if _, seekErr := file.Seek(-lost, io.SeekCurrent); seekErr != nil {
			return n, fmt.Errorf("go back to what was not sent: %w", seekErr)
		}
	}
	return n, err
}

func addressOf(c net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}
