// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
)

const (
	// maxOrphans bounds the sessions of one BMC that are kept to be closed later.
	maxOrphans = 4
	// orphanTries bounds the attempts to close a session: a BMC that has just accepted a
	// login and does not close a session has most likely forgotten the session.
	orphanTries = 3
	// maxOrphansPerLogin bounds the sessions that are closed while a call waits: a slow BMC
	// takes seconds for each.
	maxOrphansPerLogin = 2
)

// orphanSession is a session that could not be closed: the BMC was silent, or answered 401
// although the session may still be open. Ingot closes it with its own token (Conn.Close),
// because the BMC may have reused the session's number after a restart.
type orphanSession struct {
	conn  Conn
	tries int
}

// OrphanSessionError is the error of a Dialer that opened a session, could not use it, and could not
// close it. Close of the Conn tries again; the Conn supports no other call.
type OrphanSessionError struct {
	Conn Conn
	// Err is the reason why the session cannot be used.
	Err error
}

func (l *OrphanSessionError) Error() string { return l.Err.Error() }

// Unwrap returns Err.
func (l *OrphanSessionError) Unwrap() error { return l.Err }

// MaybeOpen is a Conn whose session may still be open after a Close without an error: the
// BMC answered 401. BMCs answer 401 for sessions that they have forgotten, and some answer
// 401 to every request while they fail. Another Close tries again.
type MaybeOpen interface{ MayBeOpen() bool }

// mayBeOpen reports whether Close, which returned err, may have left the session open.
func mayBeOpen(conn Conn, err error) bool {
	lingerer, ok := conn.(MaybeOpen)
	return err != nil || ok && lingerer.MayBeOpen()
}

// addOrphan keeps a session to be closed later. If there are too many, it drops the oldest,
// which ends by the BMC's own timeout.
func (s *bmcState) addOrphan(o orphanSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orphans = append(s.orphans, o); len(s.orphans) > maxOrphans {
		s.orphans = append([]orphanSession(nil), s.orphans[1:]...)
	}
}

func (s *bmcState) takeOrphans() []orphanSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	orphans := s.orphans
	s.orphans = nil
	return orphans
}

// closeOrphans closes at most limit orphan sessions of a BMC that has just accepted a
// login, or that is called for the last time. It stops when the BMC is silent or ctx ends.
// The caller holds the entry's lock.
func (p *Pool) closeOrphans(ctx context.Context, address string, s *bmcState, limit int) {
	silent := false
	for i, o := range s.takeOrphans() {
		if silent || i >= limit || ctx.Err() != nil {
			s.addOrphan(o)
			continue
		}
		e := &entry{state: s, target: Target{Address: address}}
		err := p.observe(ctx, e, CallClose, p.opts.CloseTimeout, o.conn.Close)
		if !mayBeOpen(o.conn, err) {
			continue
		}
		silent = errors.Is(err, ErrTimeout) || errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)
		if o.tries++; o.tries < orphanTries {
			s.addOrphan(o)
		}
	}
}
