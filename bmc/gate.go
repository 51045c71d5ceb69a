// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// gate decides on each connection of one session, and remembers where they led. It is
// safe for concurrent use.
type gate struct {
	pool   *Pool
	target Target

	mu      sync.Mutex
	peers   []string
	refused error
}

// connecting implements Target.Connecting.
func (g *gate) connecting(host string, to netip.AddrPort) error {
	err := g.pool.admits(g.target, host, to)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.refused = err
		return err
	}
	g.refused = nil // another address of the name was refused, and this one is not
	if peer := to.String(); !slices.Contains(g.peers, peer) {
		g.peers = append(g.peers, peer)
	}
	return nil
}

// admits checks a connection of a target: its IP address, what the caller has against it,
// and whether its account may be asked there.
func (p *Pool) admits(target Target, host string, to netip.AddrPort) error {
	if p.opts.Sources != nil && !p.opts.Sources.Allows(to.Addr()) {
		return &SourceError{Host: host}
	}
	if target.Connecting != nil {
		if err := target.Connecting(host, to); err != nil {
			return err
		}
	}
	return p.logins.spare(to.String(), target, time.Now())
}

// explain returns why a connection was refused in place of the error that the driver made
// of it. A write of which something may have been sent stays unknown (I17).
func (g *gate) explain(err error) error {
	if g == nil || err == nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	refused := g.refused
	g.refused = nil
	if refused == nil || errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return refused
}

// reached are the peers that a login was sent to: the place that the address names, and
// what it led to.
func (g *gate) reached() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{g.target.Place()}, g.peers...)
}
