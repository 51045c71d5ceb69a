// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

const (
	// searchAfter failed calls in a row, or failed connections to the image server,
	// the agent asks where else to go.
	searchAfter = 3
	// searchTimeout bounds one search.
	searchTimeout = 15 * time.Second
)

// places are where the manager and the boot server are just now. Every replica is as
// good as another: the pins say who may be spoken to, and they never change. It is
// safe for concurrent use.
type places struct {
	find func(ctx context.Context, avoid string) (agentapi.BootOptions, error)
	log  func(format string, args ...any)

	mu       sync.Mutex
	servers  []string // the first is spoken to
	files    string
	token    agentapi.Sensitive
	failures int // calls in a row without an answer
	// searching is held while somebody asks; others go on with what there is.
	searching sync.Mutex
}

func newPlaces(cfg Config) *places {
	return &places{find: cfg.Find, log: cfg.Log, servers: append([]string(nil), cfg.Servers...),
		files: cfg.Files, token: cfg.Token}
}

func (p *places) server() (string, agentapi.Sensitive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[0], p.token
}

func (p *places) fileServer() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.files
}

// answered: somebody who holds a pinned key spoke.
func (p *places) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = 0
}

// lost: nobody answered at this server. The next of the list has its turn.
func (p *places) lost(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if p.servers[0] == server && len(p.servers) > 1 {
		p.servers = append(p.servers[1:len(p.servers):len(p.servers)], server)
	}
}

// due reports that calls have failed often enough for a search.
func (p *places) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures > 0 && p.failures%max(searchAfter, len(p.servers)) == 0
}

// search asks for another replica than the present one, and goes there. It changes
// nothing when there is no answer; whoever calls it waits and tries again.
func (p *places) search(ctx context.Context) {
	if p.find == nil || !p.searching.TryLock() {
		return
	}
	defer p.searching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	avoid, _ := p.server()
	told, err := p.find(ctx, avoid)
	if err != nil {
		p.log("manager: no other replica was found: %v", err)
		return
	}
	told.Pin = "" // who may be trusted was settled when this boot began
	found, err := parseBoot(told)
	if err != nil || len(found.Servers) == 0 {
		p.log("manager: the answer about other replicas does not name one")
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
	p.log("manager: now at %s", strings.Join(found.Servers, ", "))
}
