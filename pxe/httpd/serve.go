// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// DefaultShutdownGrace is how long running downloads may continue after ctx ends. An
	// interrupted client resumes with a range request, at any replica.
	DefaultShutdownGrace = 2 * time.Second
	readHeaderTimeout    = 10 * time.Second
	idleTimeout          = time.Minute
	maxHeaderBytes       = 16 << 10
)

// Options configures Serve. Zero values mean the defaults above and in conn.go.
type Options struct {
	MaxConns, MaxConnsPerClient int
	WriteStall, ShutdownGrace   time.Duration
	Log                         *slog.Logger // may be nil
}

// Serve answers HTTP on a listener until ctx ends or the listener fails, and closes the
// listener. It returns nil when ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o Options) error {
	o.setDefaults()
	limited := newLimiter(l, o)
	defer limited.cancel()
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.ShutdownGrace)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(limited)
	if !stop() { // wait for the shutdown
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve boot HTTP: %w", err)
}

func (o *Options) setDefaults() {
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	if o.MaxConnsPerClient <= 0 {
		o.MaxConnsPerClient = DefaultMaxConnsPerClient
	}
	o.WriteStall, o.ShutdownGrace = cmp.Or(o.WriteStall, DefaultWriteStall), cmp.Or(o.ShutdownGrace, DefaultShutdownGrace)
	o.Log = cmp.Or(o.Log, discard)
}
