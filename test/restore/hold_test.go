// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"net/http"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/server"
)

// holds keep servers at a step, so that their hosts stay in a state.
type holds struct {
	mu     sync.Mutex
	armed  map[string]*hold // by server
	silent map[string]bool
	spoil  map[string]func()
}

// A hold keeps one server at a step until it is opened.
type hold struct {
	step            server.Step
	reached, opened chan struct{}
	once            sync.Once
}

func newHolds() *holds {
	return &holds{armed: map[string]*hold{}, silent: map[string]bool{}, spoil: map[string]func(){}}
}

// arm holds the server the next time that it comes to the step.
func (h *holds) arm(name string, step server.Step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed[name] = &hold{step: step, reached: make(chan struct{}), opened: make(chan struct{})}
}

// isHeld reports whether the server has come to its step.
func (h *holds) isHeld(name string) bool {
	h.mu.Lock()
	at := h.armed[name]
	h.mu.Unlock()
	if at == nil {
		return false
	}
	select {
	case <-at.reached:
		return true
	default:
		return false
	}
}

// open lets the server go on.
func (h *holds) open(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.armed[name]; at != nil {
		close(at.opened)
		delete(h.armed, name)
	}
}

// pace is the server's Config.Pace.
func (h *holds) pace(name string) func(context.Context, server.Step) {
	return func(ctx context.Context, step server.Step) {
		h.mu.Lock()
		at, spoil := h.armed[name], h.spoil[name]
		h.mu.Unlock()
		if spoil != nil && step == server.StepSeed {
			spoil()
		}
		if at == nil || at.step != step {
			return
		}
		at.once.Do(func() { close(at.reached) })
		select {
		case <-at.opened:
		case <-ctx.Done():
		}
	}
}

// silence has the system of the server run without its kubelet, from its next boot on.
func (h *holds) silence(name string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent[name] = on
}

// before is what runs on the server: nothing while it is silent.
func (h *holds) before(name string, system func(context.Context, server.System)) func(context.Context, server.System) {
	return func(ctx context.Context, os server.System) {
		h.mu.Lock()
		silent := h.silent[name]
		h.mu.Unlock()
		if silent {
			<-ctx.Done()
			return
		}
		system(ctx, os)
	}
}

// Faults of BMCs that hold a host.
var (
	hangs    = bmc.Faults{Hang: true}
	readOnly = bmc.Faults{Status: http.StatusServiceUnavailable, Match: func(method, path string) bool {
		return (method == http.MethodPost || method == http.MethodPatch) && !isSession(path)
	}}
)
