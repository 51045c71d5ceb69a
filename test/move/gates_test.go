// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/site"
)

// slow is what a step takes that was held: long enough that an agent hears of a pause
// between two of them.
const slow = 2 * time.Second

// everyServer is a name for hold.
const everyServer = ""

// gate holds one kind of step of one server.
type gate struct {
	server string
	step   server.Step
}

// gates hold agents in the middle of their work. The zero value holds nobody.
type gates struct {
	mu sync.Mutex
	// passes are how many steps may still pass a gate.
	passes map[gate]int
	// held is what a server's agent waits to do.
	held map[string]server.Step
	open chan struct{}
}

// hold lets the agents of a server, or of all, make some steps and no more.
func (g *gates) hold(name string, step server.Step, passes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.passes, g.held, g.open = map[gate]int{}, map[string]server.Step{}, make(chan struct{})
	}
	g.passes[gate{name, step}] = passes
}

// release lets all go on, slowly those that were held.
func (g *gates) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
	g.passes = nil
}

// hurry ends the slowness of those that were held.
func (g *gates) hurry() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = nil
}

// pace is a server's Pace.
func (g *gates) pace(name string) func(context.Context, server.Step) {
	return func(ctx context.Context, step server.Step) {
		open := g.arrive(name, step)
		if open == nil {
			return
		}
		select {
		case <-open:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(slow):
		case <-ctx.Done():
		}
	}
}

// arrive returns what to wait for; nil: nothing.
func (g *gates) arrive(name string, step server.Step) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range []gate{{name, step}, {everyServer, step}} {
		passes, closed := g.passes[key]
		if !closed {
			continue
		}
		if passes > 0 {
			g.passes[key]--
			return nil
		}
		g.held[name] = step
		return g.open
	}
	if g.open == nil && g.held[name] == step { // it was held, and is slow now
		opened := make(chan struct{})
		close(opened)
		return opened
	}
	return nil
}

// holds says whether a server's agent is not held yet.
func (g *gates) holds(name string, step server.Step) site.Missing {
	return func(context.Context) (string, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.held[name] != step {
			return fmt.Sprintf("the agent of %s is not about to %s", name, step), nil
		}
		return "", nil
	}
}
