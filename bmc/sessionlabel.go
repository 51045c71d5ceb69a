// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"strings"
)

// Mark is by whom a session was opened, in a form that a BMC keeps with the session
// and shows to who lists them (Redfish Session.Context). It is no secret. What a
// process that was killed left open is known by it.
type Mark struct {
	// Owner is the installation: the same over restarts, and different for every other
	// that may use the same account. Empty: sessions get no mark.
	Owner string
	// Life is this life of it: every process has another.
	Life string
}

const markScheme = "ingot/"

// String is the mark as a BMC keeps it; empty: none.
func (m Mark) String() string {
	if m.Owner == "" {
		return ""
	}
	return markScheme + m.Owner + "/" + m.Life
}

// Earlier says whether a mark that a BMC shows is of another life of the same owner.
func (m Mark) Earlier(shown string) bool {
	life, ours := strings.CutPrefix(shown, markScheme+m.Owner+"/")
	return ours && m.Owner != "" && life != "" && life != m.Life
}

// Sweeper is a Conn that can end the sessions which earlier lives of the caller, by
// its mark and user name, have left behind: never another's.
type Sweeper interface {
	// SweepSessions returns how many it ended.
	SweepSessions(ctx context.Context) (int, error)
}

// sweep looks once, with the first session at a BMC. It is a courtesy: that it fails
// is told to the observer only. The entry's lock is held.
func (p *Pool) sweep(ctx context.Context, e *entry) {
	sweeper, can := e.conn.(Sweeper)
	if !can || p.opts.Mark.Owner == "" {
		return
	}
	place := placeOf(e.target.Address)
	p.mu.Lock()
	done := p.swept[place]
	p.swept[place] = true
	p.mu.Unlock()
	if done {
		return
	}
	_ = p.observe(ctx, e, CallSweep, p.opts.CallTimeout, func(ctx context.Context) error {
		_, err := sweeper.SweepSessions(ctx)
		return err
	})
}
