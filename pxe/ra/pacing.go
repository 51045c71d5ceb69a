// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import "time"

// RFC 4861 sections 6.2.1 and 10.
const (
	minInterval      = 200 * time.Second
	maxInterval      = 600 * time.Second
	initialInterval  = 16 * time.Second
	initialCount     = 3
	minDelayBetween  = 3 * time.Second
	maxResponseDelay = 500 * time.Millisecond

	// recheckEvery is the interval of checks for changed networks.
	recheckEvery = initialInterval
)

// pacing is the schedule of an interface. The zero value means at once.
type pacing struct {
	next time.Time
	last time.Time
	sent int
}

// solicited schedules the answer to a solicitation: with a random delay of up to half a second,
// and at least three seconds after the previous advertisement (RFC 4861 section 6.2.6). One
// answer serves all solicitations of that time.
func (p *pacing) solicited(now time.Time, jitter func(time.Duration) time.Duration) {
	at := now.Add(jitter(maxResponseDelay))
	if soonest := p.last.Add(minDelayBetween); p.sent > 0 && at.Before(soonest) {
		at = soonest
	}
	if at.Before(p.next) {
		p.next = at
	}
}

// done schedules the next advertisement. The first ones have a shorter interval (RFC 4861
// section 6.2.4).
func (p *pacing) done(now time.Time, jitter func(time.Duration) time.Duration) {
	p.last, p.sent = now, p.sent+1
	wait := minInterval + jitter(maxInterval-minInterval)
	if p.sent <= initialCount {
		wait = min(wait, initialInterval)
	}
	p.next = now.Add(wait)
}

func (p *pacing) changed(now time.Time) {
	p.next = now
	if soonest := p.last.Add(minDelayBetween); p.sent > 0 && now.Before(soonest) {
		p.next = soonest
	}
}

func (p *pacing) isDue(now time.Time) bool { return !now.Before(p.next) }
