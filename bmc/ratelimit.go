// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
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

// limiter returns a limiter for one BMC; its burst is available at once.
func (o PaceOptions) limiter() *rate.Limiter {
	if o.Rate < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(o.Rate), o.Burst)
}

// dealings are what a Pool remembers of a BMC beyond its session.
type dealings struct {
	limiter *rate.Limiter // of requests; safe for concurrent use

	mu      sync.Mutex
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
	rest := &dealings{limiter: d.limiter, left: d.left}
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
func (d *dealings) void(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contact.Failures == 0 && len(d.left) == 0 && d.limiter.TokensAt(now) >= float64(d.limiter.Burst())
}

type paceKey struct{}

// Pace waits until the BMC of a call may get another request, or until the call's
// context ends, whose error it then returns. Drivers call it before each request;
// outside a Pool it does not wait.
func Pace(ctx context.Context) error {
	limiter, ok := ctx.Value(paceKey{}).(*rate.Limiter)
	if !ok {
		return nil
	}
	turn := limiter.Reserve() // Wait would fail at once where the deadline comes first
	if turn.Delay() == 0 {
		return nil
	}
	t := time.NewTimer(turn.Delay())
	defer t.Stop()
	select {
	case <-t.C:
		Heard(ctx) // it was not asked while we waited
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return ctx.Err()
	}
}
