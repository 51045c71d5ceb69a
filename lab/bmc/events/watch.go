// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"
	"time"
)

// pollInterval is how often the power of the machine is checked while there is a receiver.
const pollInterval = 50 * time.Millisecond

// Watch polls the machine while there is a receiver: a machine may switch off by itself, and does
// not report it.
type Watch struct {
	// Poll is called at each poll, Changed after a change of the power state. Required.
	Poll    func()
	Powered func() bool
	Changed func(on bool)

	work   sync.WaitGroup
	mu     sync.Mutex
	cancel context.CancelFunc
}

// Begin starts the polls.
func (w *Watch) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	before := w.Powered()
	w.work.Go(func() {
		t := time.NewTicker(pollInterval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			w.Poll()
			if now := w.Powered(); now != before {
				before = now
				w.Changed(now)
			}
		}
	})
}

// End stops the polls and does not wait.
func (w *Watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// Close stops the polls and waits for the last one.
func (w *Watch) Close() {
	w.End()
	w.work.Wait()
}
