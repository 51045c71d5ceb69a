// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"
)

// retryDelay limits the CPU time of a read loop whose socket keeps failing.
const retryDelay = 10 * time.Millisecond

// Read calls next in a loop until ctx ends or the socket fails. Parameter next reads and
// handles one packet; its error is the read error. The caller closes the socket when ctx ends.
// Read returns nil when ctx ends, and else an error that wraps net.ErrClosed.
func Read(ctx context.Context, log *slog.Logger, what string, next func() error) error {
	for {
		err := next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read %s: %w", what, err)
		case err != nil:
			// ICMP errors of earlier answers appear here and are harmless.
			log.Debug("Cannot read a "+what, "error", err)
			select {
			case <-time.After(retryDelay):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// Recover must be deferred by the handler of a packet. It logs a panic, so that a malicious
// packet does not stop the server. Parameter from is for the log; it is generic to avoid
// formatting, because most packets need no log.
func Recover[From any](log *slog.Logger, what string, from From) {
	if p := recover(); p != nil {
		log.Error("A "+what+" caused a panic", "from", from, "panic", p, "stack", string(debug.Stack()))
	}
}
