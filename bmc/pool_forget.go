// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

// Forget closes the session with a BMC that is no longer needed, without waiting: calls in
// flight finish first. Callers of another system of the same BMC open a new session with
// their next call. The state of the BMC is kept while another of its systems is in use.
func (p *Pool) Forget(address string) {
	origin := originOf(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.states[origin]
	last := s == nil || s.removeUser(address)
	if last {
		delete(p.states, origin)
		delete(p.swept, origin)
		delete(p.peers, origin)
	}
	e, ok := p.entries[origin]
	switch {
	case p.closed:
	case ok:
		e.forgotten = true
		if e.waiting == 0 {
			e.stopIdleTimer()
			p.retire(origin, e)
		}
	case last && s != nil && s.hasOrphans():
		e = newEntry(s)
		e.forgotten = true
		p.entries[origin] = e
		p.retire(origin, e)
	}
}

// closeForgotten closes the orphan sessions of a BMC that is no longer in use. It keeps
// those that the BMC does not close for the next user of the BMC, and for Pool.Close. The
// caller holds the entry's lock.
func (p *Pool) closeForgotten(origin string, s *bmcState) {
	p.closeOrphans(p.base, origin, s, maxOrphans)
	p.mu.Lock()
	defer p.mu.Unlock()
	orphans := s.takeOrphans()
	if len(orphans) == 0 {
		return
	}
	if p.states[origin] == nil {
		p.states[origin] = &bmcState{limiter: s.limiter}
	}
	for _, o := range orphans {
		p.states[origin].addOrphan(o)
	}
}

// RetryNow allows the next call to a target's BMC at once, even during a pause, and allows its
// refused credentials to be sent once more: an operator may have corrected the problem at the BMC.
// If that login is refused, the next one waits like a login with a new password.
func (p *Pool) RetryNow(target Target) {
	origin := target.Origin()
	p.mu.Lock()
	s, peers := p.states[origin], append([]string{origin}, p.peers[origin]...)
	p.mu.Unlock()
	p.logins.allowRetry(peers, target.Username)
	if s != nil {
		s.endPause()
	}
}
