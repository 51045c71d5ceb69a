// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Defaults of PaceOptions: a BMC at rest gets a request a minute, and the reading
// of an inventory fits into one burst.
const (
	DefaultPaceRate  = 20
	DefaultPaceBurst = 60
)

// PaceOptions bound the requests to one BMC: many in a short time freeze weak
// ones. Zero fields mean the defaults.
type PaceOptions struct {
	// Rate in requests per second; negative: unbounded.
	Rate float64
	// Burst is how many may follow one another at once after a pause.
	Burst int
}

func (o PaceOptions) filled() PaceOptions {
	if o.Rate == 0 {
		o.Rate = DefaultPaceRate
	}
	if o.Burst <= 0 {
		o.Burst = DefaultPaceBurst
	}
	return o
}

// bucket holds tokens, one per request. It starts full.
type bucket struct {
	// spent tokens at the moment at; they come back at the rate.
	spent float64
	at    time.Time
}

// take spends a token and returns how long to wait before using it.
func (b *bucket) take(now time.Time, o PaceOptions) time.Duration {
	if o.Rate < 0 {
		return 0
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.spent = max(0, b.spent-passed.Seconds()*o.Rate)
		b.at = now
	}
	b.spent++
	return max(0, time.Duration((b.spent-float64(o.Burst))/o.Rate*float64(time.Second)))
}

// full says whether nothing would be lost with the bucket.
func (b *bucket) full(now time.Time, o PaceOptions) bool {
	return now.Sub(b.at).Seconds()*o.Rate >= b.spent
}

// dealings are what a Pool remembers of a BMC beyond its session.
type dealings struct {
	mu      sync.Mutex
	bucket  bucket
	contact Contact
	// target of the last call: failures of other credentials say nothing.
	target Target
	// left are sessions that could not be ended, oldest first.
	left []leftover
	// users are the addresses, each of a system of the BMC, that were called and not
	// forgotten since.
	users map[string]bool
}

// admit refuses while the BMC rests. Another target, such as corrected
// credentials, gets its chance at once.
func (d *dealings) admit(target Target, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.target.sameBMC(target) {
		d.contact = Contact{}
	}
	d.target = target
	if d.users == nil {
		d.users = map[string]bool{}
	}
	d.users[target.Address] = true
	if c := d.contact; c.Rests(now) {
		return &RestError{RetryAfter: c.RestsUntil.Sub(now), Failures: c.Failures, Err: c.Err}
	}
	return nil
}

// note remembers how a call went.
func (d *dealings) note(err error, now time.Time, o RestOptions) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contact = d.contact.after(err, now, rand.Float64(), o)
}

// forgive lets the BMC be asked at once.
func (d *dealings) forgive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contact.RestsUntil = time.Time{}
}

// leaves says whether nobody uses the BMC any more once an address does not.
func (d *dealings) leaves(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.users, address)
	return len(d.users) == 0
}

// owes says whether sessions are left to be ended.
func (d *dealings) owes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.left) > 0
}

// remains are the dealings with a BMC that nobody uses any more: the sessions that could
// not be ended yet; nil: none.
func (d *dealings) remains() *dealings {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		return nil
	}
	rest := &dealings{left: d.left}
	d.left = nil
	return rest
}

// fails says whether the last call failed.
func (d *dealings) fails() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contact.Failures > 0
}

// void says that there is nothing to remember.
func (d *dealings) void(now time.Time, o PaceOptions) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contact.Failures == 0 && len(d.left) == 0 && d.bucket.full(now, o)
}

type paceKey struct{}

// paced is what a context carries for Pace.
type paced struct {
	dealings *dealings
	options  PaceOptions
}

// Pace waits until the BMC of a call may get another request, or until the call's
// context ends, whose error it then returns. Drivers call it before each request;
// outside a Pool it does not wait.
func Pace(ctx context.Context) error {
	p, ok := ctx.Value(paceKey{}).(paced)
	if !ok {
		return nil
	}
	p.dealings.mu.Lock()
	wait := p.dealings.bucket.take(time.Now(), p.options)
	p.dealings.mu.Unlock()
	if wait == 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		Heard(ctx) // it was not asked while we waited
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
