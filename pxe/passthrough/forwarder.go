// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"cmp"
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
	maxConnections = 8192 // like HTTP of the boot server; an agent has one or two
	maxPerClient   = 16
	dialTimeout    = 10 * time.Second
	// idleTimeout is longer than the manager keeps an idle connection.
	idleTimeout = 3 * time.Minute
	// acceptPause follows a failed accept, such as with too many open files.
	acceptPause = 100 * time.Millisecond
	// bufferSize is the buffer size per direction: messages of agents are short.
	bufferSize = 4 << 10
)

type Config struct {
	// Upstream is the host:port of the agent API. Required.
	Upstream string
	// Seal authenticates a message with the shared key. Required.
	Seal func(message []byte) []byte
	// Hardware returns the boot NIC that DHCP saw with an address, or nil. The manager
	// reads it by HardwareOf. A nil function means that no NIC is known.
	Hardware func(netip.Addr) net.HardwareAddr
	// MaxConnections limits the connections, and MaxPerClient those of one address; 0 means
	// 8192 and 16. Above the first limit clients wait, above the second they are refused.
	MaxConnections, MaxPerClient int
	// Idle closes a connection with no data in one direction; 0 means 3 minutes.
	Idle time.Duration
	// Now is the clock for seals; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger // may be nil
}

// Forwarder forwards connections. Call Run once.
type Forwarder struct {
	cfg     Config
	dialer  net.Dialer
	clients pxe.ClientLimit
}

// New validates the configuration and sets its defaults.
func New(c Config) (*Forwarder, error) {
	if _, _, err := net.SplitHostPort(c.Upstream); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	if c.Seal == nil {
		return nil, errors.New("create forwarder: Config.Seal is required")
	}
	c.MaxConnections, c.MaxPerClient = cmp.Or(c.MaxConnections, maxConnections), cmp.Or(c.MaxPerClient, maxPerClient)
	c.Idle, c.Log = cmp.Or(c.Idle, idleTimeout), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Hardware == nil {
		c.Hardware = func(netip.Addr) net.HardwareAddr { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Forwarder{cfg: c, dialer: net.Dialer{Timeout: dialTimeout}, clients: pxe.ClientLimit{Max: c.MaxPerClient}}, nil
}

// Run serves until ctx ends or a listener fails, and closes the listeners and all connections.
// It returns nil when ctx ends.
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
		cancel() // the first end stops all
	}
	return failed
}

func (f *Forwarder) accept(ctx context.Context, l net.Listener, slots chan struct{}, running *sync.WaitGroup) error {
	for {
		select {
		case slots <- struct{}{}: // before Accept, so that other clients wait in the backlog
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
				return fmt.Errorf("accept agent connection: %w", err)
			}
			f.cfg.Log.Warn("Cannot accept an agent connection", "reason", err.Error())
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			f.serve(ctx, client)
		})
	}
}

// Dial connects the boot server itself to the agent API.
func (f *Forwarder) Dial(ctx context.Context) (net.Conn, error) {
	upstream, err := f.dialer.DialContext(ctx, "tcp", f.cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("connect to the manager: %w", err)
	}
	header, err := newHeader(upstream.LocalAddr(), upstream.RemoteAddr(), nil, f.cfg.Now(), f.cfg.Seal)
	if err == nil {
		_, err = header.WriteTo(upstream)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the manager: %w", err), upstream.Close())
	}
	return upstream, nil
}

func (f *Forwarder) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	source := normalize(client.RemoteAddr()).Addr()
	if !f.clients.Enter(source) {
		f.cfg.Log.Info("Refused an agent connection: too many from one address", "client", source.String())
		return
	}
	defer f.clients.Leave(source)
	header, err := newHeader(client.RemoteAddr(), client.LocalAddr(), f.cfg.Hardware(source), f.cfg.Now(), f.cfg.Seal)
	if err != nil {
		f.cfg.Log.Warn("Cannot forward an agent connection", "client", source.String(), "reason", err.Error())
		return
	}
	upstream, err := f.dialer.DialContext(ctx, "tcp", f.cfg.Upstream)
	if err != nil {
		if ctx.Err() == nil {
			f.cfg.Log.Warn("Cannot connect to the agent API; the agent retries", "upstream", f.cfg.Upstream, "reason", err.Error())
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
	var back sync.WaitGroup
	back.Go(func() { f.copy(client, upstream) })
	f.copy(upstream, client)
	back.Wait()
}

// copy forwards one direction. It forwards the end of the stream, so that the answer to a last
// request still arrives. After a failure it closes both connections.
func (f *Forwarder) copy(to, from net.Conn) {
	buffer := make([]byte, bufferSize)
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
