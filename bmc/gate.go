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

// gate checks each connection of one session and records its peers. It is safe for concurrent use.
type gate struct {
	pool   *Pool
	target Target

	mu      sync.Mutex
	peers   []string
	refusal error
}

// connecting is the Target.Connecting of a session.
func (g *gate) connecting(host string, to netip.AddrPort) error {
	err := g.pool.checkConnection(g.target, host, to)
	g.mu.Lock()
	defer g.mu.Unlock()
	// An accepted address of a host name replaces the refusal of another one.
	g.refusal = err
	if peer := to.String(); err == nil && !slices.Contains(g.peers, peer) {
		g.peers = append(g.peers, peer)
	}
	return err
}

// checkConnection checks the IP address of a connection against Sources, asks the caller's
// own check, and refuses accounts whose next login is not due yet.
func (p *Pool) checkConnection(target Target, host string, to netip.AddrPort) error {
	if p.opts.Sources != nil && !p.opts.Sources.Allows(to.Addr()) {
		return &SourceError{Host: host}
	}
	if target.Connecting != nil {
		if err := target.Connecting(host, to); err != nil {
			return err
		}
	}
	return p.logins.check(to.String(), target, time.Now())
}

// replaceRefusal returns the refusal of a connection in place of the error that the driver
// derived from it. A write that may have been sent stays unknown (I17).
func (g *gate) replaceRefusal(err error) error {
	if g == nil || err == nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	refusal := g.refusal
	g.refusal = nil
	if refusal == nil || errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return refusal
}

// loginPeers returns the origin of the target and the peers that a login was sent to.
func (g *gate) loginPeers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{g.target.Origin()}, g.peers...)
}
