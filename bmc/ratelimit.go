// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Defaults of RateLimitOptions: an idle BMC gets one request per minute, and the reading of an
// inventory fits into one burst.
const (
	DefaultRequestRate  = 20
	DefaultRequestBurst = 60
)

// RateLimitOptions bound the request rate per BMC, because many requests in a short time freeze
// weak BMCs. Zero fields mean the defaults.
type RateLimitOptions struct {
	// Rate is in requests per second; negative: unbounded.
	Rate float64
	// Burst is the number of requests that may follow each other at once after a pause.
	Burst int
}

func (o RateLimitOptions) filled() RateLimitOptions {
	return RateLimitOptions{Rate: cmp.Or(o.Rate, DefaultRequestRate), Burst: cmp.Or(max(o.Burst, 0), DefaultRequestBurst)}
}

// limiter returns a limiter for one BMC; its burst is available at once.
func (o RateLimitOptions) limiter() *rate.Limiter {
	if o.Rate < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(o.Rate), o.Burst)
}

// bmcState is the state that a Pool keeps per BMC across sessions.
type bmcState struct {
	limiter *rate.Limiter // of requests; safe for concurrent use

	mu      sync.Mutex
	contact CallStatus
	// target of the last call: failures with other credentials do not count.
	target Target
	// orphans are sessions that could not be closed, oldest first.
	orphans []orphanSession
	// users are the addresses that were called and not forgotten since. Each names one
	// system of the BMC.
	users map[string]bool
}

// admit refuses a call while calls to the BMC are paused. It admits another target, such
// as corrected credentials, at once.
func (s *bmcState) admit(target Target, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.target.sameBMC(target) {
		s.contact = CallStatus{}
	}
	s.target = target
	if s.users == nil {
		s.users = map[string]bool{}
	}
	s.users[target.Address] = true
	if c := s.contact; c.IsPaused(now) {
		return &PausedError{RetryAfter: c.PausedUntil.Sub(now), Failures: c.Failures, Err: c.Err}
	}
	return nil
}

// record remembers the result of a call.
func (s *bmcState) record(err error, now time.Time, o PauseOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contact = s.contact.after(err, now, rand.Float64(), o)
}

// endPause allows calls to the BMC at once.
func (s *bmcState) endPause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contact.PausedUntil = time.Time{}
}

// removeUser forgets an address and reports whether no other address uses the BMC.
func (s *bmcState) removeUser(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.users, address)
	return len(s.users) == 0
}

func (s *bmcState) hasOrphans() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orphans) > 0
}

// isFailing reports whether the last call failed.
func (s *bmcState) isFailing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.contact.Failures > 0
}

// isEmpty reports whether there is nothing to remember.
func (s *bmcState) isEmpty(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.contact.Failures == 0 && len(s.orphans) == 0 && s.limiter.TokensAt(now) >= float64(s.limiter.Burst())
}

type rateLimitKey struct{}

// WaitForRateLimit waits until the BMC of a call may get another request, or until the call's context
// ends, and then returns the context's error. Drivers call it before each request. Outside
// of a Pool it does not wait.
func WaitForRateLimit(ctx context.Context) error {
	limiter, ok := ctx.Value(rateLimitKey{}).(*rate.Limiter)
	if !ok {
		return nil
	}
	reservation := limiter.Reserve() // Wait would fail at once if the deadline came first
	if reservation.Delay() == 0 {
		return nil
	}
	if !sleep(ctx, reservation.Delay()) {
		reservation.Cancel()
		return ctx.Err()
	}
	ResponseReceived(ctx) // the wait was Ingot's, so the BMC was not silent
	return nil
}
