// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// maxConnections at once, as of the boot server's HTTP. An agent has one or two.
	maxConnections = 8192
	// maxPerClient keeps one server from taking all.
	maxPerClient = 16
	// dialTimeout bounds the way to the manager.
	dialTimeout = 10 * time.Second
	// idleTimeout is longer than the manager keeps an idle connection.
	idleTimeout = 3 * time.Minute
	// acceptPause is the pause after a failure to accept, such as too many open files.
	acceptPause = 100 * time.Millisecond
	// bufferBytes of each direction of a connection: what agents say is short.
	bufferBytes = 4 << 10
)

// Config configures a Forwarder.
type Config struct {
	// Upstream is host:port of the agent API. Required.
	Upstream string
	// Seal authenticates a message with the key that the manager has too. Required.
	Seal func(message []byte) []byte
	// Hardware returns the boot NIC that DHCP has shown at an address; nil: none. The
	// manager hears of it (HardwareOf). Nil: no NIC is known.
	Hardware func(netip.Addr) net.HardwareAddr
	// MaxConnections at once, of which MaxPerClient from one address; 0 means 8192
	// and 16. Above the first, clients wait; above the second, they are refused.
	MaxConnections, MaxPerClient int
	// Idle closes a connection on which nothing moves one way; 0 means 3 minutes.
	Idle time.Duration
	// Now is the clock of the seals; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Forwarder passes connections through. It may run once.
type Forwarder struct {
	cfg     Config
	dialer  net.Dialer
	clients pxe.ClientLimit
}

// New checks the configuration.
func New(c Config) (*Forwarder, error) {
	if _, _, err := net.SplitHostPort(c.Upstream); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	if c.Seal == nil {
		return nil, errors.New("a forwarder needs a seal")
	}
	if c.MaxConnections <= 0 {
		c.MaxConnections = maxConnections
	}
	if c.MaxPerClient <= 0 {
		c.MaxPerClient = maxPerClient
	}
	if c.Idle <= 0 {
		c.Idle = idleTimeout
	}
	if c.Hardware == nil {
		c.Hardware = func(netip.Addr) net.HardwareAddr { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Forwarder{cfg: c, dialer: net.Dialer{Timeout: dialTimeout}, clients: pxe.ClientLimit{Max: c.MaxPerClient}}, nil
}

// Run serves until ctx ends or a listener breaks, and closes them and every connection.
// A nil error means that ctx ended.
func (f *Forwarder) Run(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	slots := make(chan struct{}, f.cfg.MaxConnections)
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		running.Go(func() { ended <- f.accept(ctx, l, slots, &running) })
	}
	var failed error
	for range listeners {
		failed = errors.Join(failed, <-ended)
		cancel() // one that ends, ends all
	}
	return failed
}

// accept serves one listener.
func (f *Forwarder) accept(ctx context.Context, l net.Listener, slots chan struct{}, running *sync.WaitGroup) error {
	for {
		select {
		case slots <- struct{}{}: // taken before accepting: the others wait in the backlog
		case <-ctx.Done():
			return nil
		}
		client, err := l.Accept()
		if err != nil {
			<-slots
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("pass agents through: %w", err)
			}
			f.cfg.Log.Warn("Could not accept a connection of an agent", "reason", err.Error())
			pause(ctx, acceptPause)
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			f.serve(ctx, client)
		})
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Dial connects the boot server itself to the agent API, for what it has to tell.
func (f *Forwarder) Dial(ctx context.Context) (net.Conn, error) {
	upstream, err := f.dialer.DialContext(ctx, "tcp", f.cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("reach the manager: %w", err)
	}
	header, err := newHeader(upstream.LocalAddr(), upstream.RemoteAddr(), nil, f.cfg.Now(), f.cfg.Seal)
	if err == nil {
		_, err = header.WriteTo(upstream)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach the manager: %w", err), upstream.Close())
	}
	return upstream, nil
}

// serve passes one connection through, to its end.
func (f *Forwarder) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	source := plain(client.RemoteAddr()).Addr()
	if !f.clients.Enter(source) {
		f.cfg.Log.Info("Refused a connection: too many from one address", "client", source.String())
		return
	}
	defer f.clients.Leave(source)
	header, err := newHeader(client.RemoteAddr(), client.LocalAddr(), f.cfg.Hardware(source), f.cfg.Now(), f.cfg.Seal)
	if err != nil {
		f.cfg.Log.Warn("Could not pass a connection on", "client", source.String(), "reason", err.Error())
		return
	}
	upstream, err := f.dialer.DialContext(ctx, "tcp", f.cfg.Upstream)
	if err != nil {
		if ctx.Err() == nil {
			f.cfg.Log.Warn("Could not reach the agent API; the agent tries again", "upstream", f.cfg.Upstream, "reason", err.Error())
		}
		return
	}
	defer func() { _ = upstream.Close() }()
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = upstream.Close()
	})
	defer stop()
	_ = upstream.SetWriteDeadline(time.Now().Add(f.cfg.Idle))
	if _, err := header.WriteTo(upstream); err != nil {
		return
	}
	f.join(client, upstream)
}

// join copies both ways until both have ended, or one broke.
func (f *Forwarder) join(client, upstream net.Conn) {
	var back sync.WaitGroup
	back.Go(func() { f.copy(client, upstream) })
	f.copy(upstream, client)
	back.Wait()
}

// copy carries one direction. Its end is passed on as such, so that the answer to a
// last request still comes back; a failure ends the other direction too.
func (f *Forwarder) copy(to, from net.Conn) {
	buffer := make([]byte, bufferBytes)
	for {
		_ = from.SetReadDeadline(time.Now().Add(f.cfg.Idle))
		n, err := from.Read(buffer)
		if n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(f.cfg.Idle))
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err == nil {
			continue
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && errors.Is(err, io.EOF) && half.CloseWrite() == nil {
			return
		}
		break
	}
	_ = from.Close()
	_ = to.Close()
}
