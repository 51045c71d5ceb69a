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

// shutdownGrace is how long running downloads may go on after ctx ended. A
// client that is cut off continues with a range request at another replica.
const shutdownGrace = 2 * time.Second

// Serve answers HTTP on a listener until ctx ends or the listener breaks, and
// closes it. A nil error means that ctx ended. Log may be nil.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() { // the shutdown has begun: see it through
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve boot HTTP: %w", err)
}
