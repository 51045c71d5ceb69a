// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"strings"
)

// SessionLabel labels a session with the process that opened it, in a form that a BMC stores with
// the session and lists (Redfish Session.Context). It is no secret. Ingot uses it to find
// the sessions that a killed process left open.
type SessionLabel struct {
	// Owner identifies the installation. It survives restarts and differs between
	// installations that may use the same account. Empty: sessions get no label.
	Owner string
	// Process identifies the process.
	Process string
}

const markScheme = "ingot/"

// String returns the label as a BMC stores it; empty: none.
func (m SessionLabel) String() string {
	if m.Owner == "" {
		return ""
	}
	return markScheme + m.Owner + "/" + m.Process
}

// IsEarlierProcess reports whether a label that a BMC lists belongs to another process of the same owner.
func (m SessionLabel) IsEarlierProcess(shown string) bool {
	life, ours := strings.CutPrefix(shown, markScheme+m.Owner+"/")
	return ours && m.Owner != "" && life != "" && life != m.Process
}

// Sweeper is a Conn that can close the sessions of earlier processes. It closes only
// sessions with the caller's label and user name.
type Sweeper interface {
	// SweepSessions returns the number of closed sessions.
	SweepSessions(ctx context.Context) (int, error)
}

// sweep closes the sessions of earlier processes once, with the first session at a BMC.
// Only the observer sees its errors. The entry's lock is held.
func (p *Pool) sweep(ctx context.Context, e *entry) {
	sweeper, ok := e.conn.(Sweeper)
	if !ok || p.opts.SessionLabel.Owner == "" {
		return
	}
	origin := originOf(e.target.Address)
	p.mu.Lock()
	done := p.swept[origin]
	p.swept[origin] = true
	p.mu.Unlock()
	if done {
		return
	}
	_ = p.observe(ctx, e, CallSweep, p.opts.CallTimeout, func(ctx context.Context) error {
		_, err := sweeper.SweepSessions(ctx)
		return err
	})
}
