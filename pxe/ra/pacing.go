// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import "time"

// RFC 4861 §6.2.1 and §10.
const (
	minInterval      = 200 * time.Second
	maxInterval      = 600 * time.Second
	initialInterval  = 16 * time.Second
	initialCount     = 3
	minDelayBetween  = 3 * time.Second
	maxResponseDelay = 500 * time.Millisecond

	// lookEvery is how soon it is seen that there is something else to say.
	lookEvery = initialInterval
)

// pacing says when an interface is advertised to next. The zero value: at once.
type pacing struct {
	next time.Time
	last time.Time
	sent int
}

// asked: somebody solicits. By chance it is answered within half a second, all who ask
// meanwhile with it, but not sooner than three seconds after the one before (§6.2.6).
func (p *pacing) asked(now time.Time, chance func(time.Duration) time.Duration) {
	at := now.Add(chance(maxResponseDelay))
	if soonest := p.last.Add(minDelayBetween); p.sent > 0 && at.Before(soonest) {
		at = soonest
	}
	if at.Before(p.next) {
		p.next = at
	}
}

// done: an advertisement went out. The first ones follow each other sooner (§6.2.4).
func (p *pacing) done(now time.Time, chance func(time.Duration) time.Duration) {
	p.last, p.sent = now, p.sent+1
	wait := minInterval + chance(maxInterval-minInterval)
	if p.sent <= initialCount {
		wait = min(wait, initialInterval)
	}
	p.next = now.Add(wait)
}

// changed: there is something else to say than before.
func (p *pacing) changed(now time.Time) {
	p.next = now
	if soonest := p.last.Add(minDelayBetween); p.sent > 0 && now.Before(soonest) {
		p.next = soonest
	}
}

// due reports that it is time.
func (p *pacing) due(now time.Time) bool { return !now.Before(p.next) }
