// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

// What a Pool knows of a BMC, and when it lets go of it.

// Forget ends the session with a BMC that is no longer wanted. It does not wait:
// calls in flight go on, and the session ends after the last of them. Whoever wants
// another system of the same BMC opens a new one with the next call; what is known of
// the BMC is kept for those who have called another.
func (p *Pool) Forget(address string) {
	place := placeOf(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dealings[place]
	last := d == nil || d.leaves(address)
	if last {
		delete(p.dealings, place)
		delete(p.swept, place)
		delete(p.peers, place)
	}
	e, ok := p.entries[place]
	switch {
	case p.closed:
	case ok:
		e.forgotten = true
		if e.waiting == 0 {
			e.stopIdle()
			p.retire(place, e)
		}
	case last && d != nil && d.owes():
		e = newEntry(d)
		e.forgotten = true
		p.entries[place] = e
		p.retire(place, e)
	}
}

// partWith ends the sessions that were left at a BMC which nobody uses any more. Those
// that it does not end are kept for whoever uses it next, and for Close. The caller has
// the BMC to itself.
func (p *Pool) partWith(place string, d *dealings) {
	p.endLeft(p.base, place, d, maxLeft)
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := d.remains()
	if known := p.dealings[place]; rest != nil && known != nil {
		for _, l := range rest.left {
			known.leave(l)
		}
	} else if rest != nil {
		p.dealings[place] = rest
	}
}

// Forgive has a target's BMC asked with the next call, also while it rests, and its
// credentials sent once more though they were refused: a person may have corrected at the
// BMC what was wrong. The first such login is sent at once. If it is refused, the next one
// waits, as one with another password does.
func (p *Pool) Forgive(target Target) {
	place := target.Place()
	p.mu.Lock()
	d, peers := p.dealings[place], append([]string{place}, p.peers[place]...)
	p.mu.Unlock()
	p.logins.forgive(peers, target.Username)
	if d != nil {
		d.forgive()
	}
}
