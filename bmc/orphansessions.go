// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
)

const (
	// maxLeft bounds the sessions of one BMC that are kept to be ended later.
	maxLeft = 4
	// leftTries is how often the end of one is tried again: a BMC that has just taken a
	// login and does not end it has most likely forgotten it.
	leftTries = 3
	// endsAtOnce bounds those that are ended before a call that waits for it: a slow BMC
	// takes seconds for each.
	endsAtOnce = 2
)

// leftover is a session that could not be ended: the BMC was silent, or answered 401 to
// a session that may hold all the same. It is ended by its own token (Conn.Close once
// more), so that it is ours for certain, whoever else uses the account: the number of a
// session may be another's after a restart of the BMC.
type leftover struct {
	conn  Conn
	tries int
}

// LeftOpen is the error of a Dialer that opened a session, found no use for it, and could
// not end it. Close of the Conn tries again; nothing else may be asked of it.
type LeftOpen struct {
	Conn Conn
	// Err is why it is of no use.
	Err error
}

func (l *LeftOpen) Error() string { return l.Err.Error() }

// Unwrap gives the error.
func (l *LeftOpen) Unwrap() error { return l.Err }

// Lingerer is a Conn whose session may be open at the BMC after a Close that found
// nothing wrong: the BMC answered 401, as it does to a session that it has forgotten,
// and as some do to all while they are ill. Another Close tries again.
type Lingerer interface{ Lingers() bool }

// lingers says whether a connection may have left its session open.
func lingers(conn Conn, err error) bool {
	lingerer, can := conn.(Lingerer)
	return err != nil || can && lingerer.Lingers()
}

// leave keeps a session to be ended later; of too many the oldest is given up, and ends
// by the BMC's own timeout.
func (d *dealings) leave(l leftover) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left = append(d.left, l); len(d.left) > maxLeft {
		d.left = append([]leftover(nil), d.left[1:]...)
	}
}

// takeLeft hands over all that was left.
func (d *dealings) takeLeft() []leftover {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.left
	d.left = nil
	return left
}

// endLeft ends what was left at a BMC that has just taken a login, or that is called for
// the last time, most of them at once. The caller has the BMC to itself. One that is
// silent is asked no more this time, nor is any once ctx has ended.
func (p *Pool) endLeft(ctx context.Context, address string, d *dealings, most int) {
	silent := false
	for i, l := range d.takeLeft() {
		if silent || i >= most || ctx.Err() != nil {
			d.leave(l)
			continue
		}
		e := &entry{dealings: d, target: Target{Address: address}}
		err := p.observe(ctx, e, CallClose, p.opts.CloseTimeout, l.conn.Close)
		if !lingers(l.conn, err) {
			continue
		}
		silent = errors.Is(err, ErrTimeout) || errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)
		if l.tries++; l.tries < leftTries {
			d.leave(l)
		}
	}
}
