// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Hello answers every HTTP request on the listener with the name of who answers, until
// ctx ends; it closes the listener. A pod of Image that runs it shows whether pods are
// reached.
func Hello(ctx context.Context, listener net.Listener, name string) error {
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "hello from %s\n", name)
		}),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
