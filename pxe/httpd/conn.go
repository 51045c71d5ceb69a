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
	// DefaultMaxConns limits the simultaneous connections. More wait in the kernel's queue.
	DefaultMaxConns = 8192
	// DefaultMaxConnsPerClient limits the connections per client address. More get 503.
	DefaultMaxConnsPerClient = 256
	// DefaultWriteStall is how long a client may accept no data. The rate does not count:
	// many clients on one link each get little.
	DefaultWriteStall = time.Minute
	// pieceSize is the maximal number of bytes per write deadline.
	pieceSize = 1 << 20
	// writeAttempts is the number of write attempts in the stall time: the kernel reports a
	// writable socket only once a third of its buffer is empty.
	writeAttempts  = 4
	refusalTimeout = time.Second
)

const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// limiter is a listener that limits the number of connections and closes stalled ones. Its
// connections can still send files by sendfile.
type limiter struct {
	net.Listener
	stall  time.Duration
	log    *slog.Logger
	slots  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	clients pxe.ClientLimit
	// warned limits the log messages about clients with too many connections.
	warned rate.Sometimes
}

func newLimiter(l net.Listener, o Options) *limiter {
	lim := &limiter{Listener: l, stall: o.WriteStall, log: o.Log, slots: make(chan struct{}, o.MaxConns),
		clients: pxe.ClientLimit{Max: o.MaxConnsPerClient}, warned: rate.Sometimes{Interval: time.Minute}}
	lim.ctx, lim.cancel = context.WithCancel(context.Background())
	return lim
}

func (l *limiter) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		client := addressOf(c)
		if !l.clients.Enter(client) {
			l.warned.Do(func() {
				// A client that represents many, such as a NAT before BMCs, needs a higher limit.
				l.log.Warn("Refused an HTTP connection: the client has too many", "client", client, "limit", l.clients.Max)
			})
			go l.refuse(c)
			continue
		}
		return l.wrap(c, client), nil
	}
}

func (l *limiter) Close() error {
	l.cancel()
	return l.Listener.Close()
}

func (l *limiter) leave(client netip.Addr) {
	l.clients.Leave(client)
	<-l.slots
}

// refuse sends a 503. It keeps its slot until then, to limit the goroutines in a flood.
func (l *limiter) refuse(c net.Conn) {
	defer func() { <-l.slots }()
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(refusalTimeout))
	_, _ = io.WriteString(c, refusal)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10)) // otherwise a reset may discard the 503
}

func (l *limiter) wrap(c net.Conn, client netip.Addr) net.Conn {
	var once sync.Once
	lc := limitedConn{Conn: c, stall: l.stall, leave: func() { once.Do(func() { l.leave(client) }) }}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &limitedTCP{limitedConn: lc, tcp: tcp}
	}
	return &lc
}

// limitedConn fails stalled writes and frees its slot when closed.
type limitedConn struct {
	net.Conn
	stall time.Duration
	leave func()
}

func (c *limitedConn) Write(p []byte) (int, error) {
	n, err := c.sendPieces(int64(len(p)), func(done, most int64) (int64, error) {
		n, err := c.Conn.Write(p[done : done+most])
		return int64(n), err
	})
	return int(n), err
}

// sendPieces sends bytes in pieces for as long as there is progress. Parameter send gets the
// number of sent bytes and the maximum to send now. It returns how many bytes it sent, also
// after a deadline, and sendPieces continues with the rest.
func (c *limitedConn) sendPieces(whole int64, send func(done, most int64) (int64, error)) (int64, error) {
	var done int64
	moved := time.Now()
	for done < whole {
		if err := c.SetWriteDeadline(time.Now().Add(c.stall / writeAttempts)); err != nil {
			return done, err
		}
		n, err := send(done, min(whole-done, pieceSize))
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

func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// limitedTCP sends files by sendfile, one piece at a time.
type limitedTCP struct {
	limitedConn
	tcp kernelConn
}

// kernelConn is the part of net.TCPConn that a net.Conn lacks.
type kernelConn interface {
	io.ReaderFrom
	CloseWrite() error
}

// CloseWrite is used by net/http, so that clients read a refusal before the reset.
func (c *limitedTCP) CloseWrite() error { return c.tcp.CloseWrite() }

// ReadFrom implements io.ReaderFrom for net/http. Only an io.LimitedReader of an os.File is
// sent without copying.
func (c *limitedTCP) ReadFrom(src io.Reader) (int64, error) {
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	file, ok := whole.R.(*os.File)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	n, err := c.sendPieces(whole.N, func(_, most int64) (int64, error) {
		return c.sendPart(file, most)
	})
	whole.N -= n
	return n, err
}

// sendPart sends the next bytes of a file. Without sendfile, net.TCPConn reads and writes
// itself, and bytes that it has read but not written at the deadline must be read again.
func (c *limitedTCP) sendPart(file *os.File, most int64) (int64, error) {
	part := &io.LimitedReader{R: file, N: most}
	n, err := c.tcp.ReadFrom(part)
	if lost := most - part.N - n; lost > 0 {
		if _, seekErr := file.Seek(-lost, io.SeekCurrent); seekErr != nil {
			return n, fmt.Errorf("seek back to unsent data: %w", seekErr)
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
