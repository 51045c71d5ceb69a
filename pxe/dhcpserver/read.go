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

// rest keeps a socket that fails at once, again and again, from taking a whole
// processor.
const rest = 10 * time.Millisecond

// Read reads packets until ctx ends, for which the socket is to be closed, or the socket
// breaks. Next reads one and handles it; its error is that of the reading. A nil error
// means that ctx ended, another one wraps net.ErrClosed.
func Read(ctx context.Context, log *slog.Logger, what string, next func() error) error {
	for {
		err := next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read %s: %w", what, err)
		case err != nil:
			// ICMP errors of earlier answers surface here; they are not ours.
			log.Debug("Could not read a "+what, "error", err)
			if !pause(ctx) {
				return nil
			}
		}
	}
}

// pause reports false when ctx ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Survive is deferred around the handling of one packet: one that makes the parser panic
// costs its sender an answer, not everybody their boot server. From is what the log says
// of the sender; it is generic because most packets need no log.
func Survive[From any](log *slog.Logger, what string, from From) {
	if p := recover(); p != nil {
		log.Error("A "+what+" caused a panic", "from", from, "panic", p, "stack", string(debug.Stack()))
	}
}
