// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"
	"time"
)

// lookTime is how often the machine's power is looked at while somebody has
// subscribed to events.
const lookTime = 50 * time.Millisecond

// Watch looks at the machine while somebody wants to hear of it: a machine may
// switch off by itself, and does not say so.
type Watch struct {
	// Look is called at each look, Changed when the power has changed. Required.
	Look    func()
	Powered func() bool
	Changed func(on bool)

	work   sync.WaitGroup
	mu     sync.Mutex
	cancel context.CancelFunc
}

// Begin starts the looks.
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
		t := time.NewTicker(lookTime)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			w.Look()
			if now := w.Powered(); now != before {
				before = now
				w.Changed(now)
			}
		}
	})
}

// End stops them, and does not wait.
func (w *Watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// Close stops the looks and waits for the last.
func (w *Watch) Close() {
	w.End()
	w.work.Wait()
}
