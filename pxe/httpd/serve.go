// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// DefaultShutdownGrace is how long running downloads may go on after ctx
	// ended. A client that is cut off continues with a range request at another
	// replica, or at this one when it is back.
	DefaultShutdownGrace = 2 * time.Second
	readHeaderTimeout    = 10 * time.Second
	idleTimeout          = time.Minute
	maxHeaderBytes       = 16 << 10
)

// Options of Serve; zero values mean the defaults above and in conn.go.
type Options struct {
	MaxConns, MaxConnsPerClient int
	WriteStall, ShutdownGrace   time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// Serve answers HTTP on a listener until ctx ends or the listener breaks, and
// closes it. A nil error means that ctx ended.
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
	if !stop() { // the shutdown has begun: see it through
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
	if o.WriteStall <= 0 {
		o.WriteStall = DefaultWriteStall
	}
	if o.ShutdownGrace <= 0 {
		o.ShutdownGrace = DefaultShutdownGrace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
