// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

const (
	// searchAfter is the number of consecutive failed calls, or failed connections to the
	// image server, after which the agent searches for another replica.
	searchAfter   = 3
	searchTimeout = 15 * time.Second
)

// endpoints are the current addresses of the manager and the boot server. All replicas are
// equivalent: the pins, which never change during a boot, authenticate each. It is safe for
// concurrent use.
type endpoints struct {
	find func(ctx context.Context, avoid string) (agentapi.BootOptions, error)
	log  func(format string, args ...any)

	mu       sync.Mutex
	servers  []string // the first one is in use
	files    string
	token    agentapi.Sensitive
	failures int // consecutive calls without an answer
	// searching is held during a search; concurrent callers skip theirs.
	searching sync.Mutex
}

func newEndpoints(cfg Config) *endpoints {
	return &endpoints{find: cfg.Find, log: cfg.Log, servers: slices.Clone(cfg.Servers), files: cfg.Files, token: cfg.Token}
}

func (p *endpoints) server() (string, agentapi.Sensitive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[0], p.token
}

func (p *endpoints) fileServer() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.files
}

// reportSuccess records an answer from a holder of a pinned key.
func (p *endpoints) reportSuccess() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = 0
}

// reportFailure records that a server did not answer, and selects the next one.
func (p *endpoints) reportFailure(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if p.servers[0] == server && len(p.servers) > 1 {
		p.servers = append(p.servers[1:len(p.servers):len(p.servers)], server)
	}
}

// needsSearch reports whether enough calls have failed in a row for another search.
func (p *endpoints) needsSearch() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures > 0 && p.failures%max(searchAfter, len(p.servers)) == 0
}

// search looks for another replica and selects it. Without an answer it changes nothing.
func (p *endpoints) search(ctx context.Context) {
	if p.find == nil || !p.searching.TryLock() {
		return
	}
	defer p.searching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	avoid, _ := p.server()
	options, err := p.find(ctx, avoid)
	if err != nil {
		p.log("manager: search for another replica: %v", err)
		return
	}
	options.Pin = "" // the pins of this boot stay
	found, err := parseBoot(options)
	if err != nil || len(found.Servers) == 0 {
		p.log("manager: search for another replica: the answer names none")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = found.Servers
	if found.Files != "" {
		p.files = found.Files
	}
	if found.Token != "" {
		p.token = found.Token
	}
	p.log("manager: using %s", strings.Join(found.Servers, ", "))
}
