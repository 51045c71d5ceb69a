// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// Defaults of RestOptions.
const (
	DefaultRestAfter = 3
	DefaultRestBase  = time.Second
	DefaultRestMax   = 30 * time.Second
	// The third refused login in a row is the last for longer than OpenBMC locks an
	// account (300 s); the pauses after that grow past the lockout of any maker.
	DefaultLockAfter = 3
	DefaultLockBase  = 6 * time.Minute
	DefaultLockMax   = 65 * time.Minute
	DefaultLockEarly = time.Minute
)

// maxAsked bounds the patience that a BMC may ask of all its callers.
const maxAsked = 5 * time.Minute

// RestOptions say when a BMC that fails is left alone; zero fields mean the
// defaults.
type RestOptions struct {
	// After so many failures in a row the BMC rests; negative: never.
	After int
	// Base is the first rest; each further failure doubles it, up to Max. A rest is
	// shortened at random by up to a half, so that BMCs that failed together
	// are not asked together.
	Base, Max time.Duration
	// LockAfter so many refused logins in a row no credentials that were refused are sent
	// for LockBase, which each further refusal doubles, up to LockMax, and up to a tenth
	// of it at random: a retry within a BMC's lockout prolongs it. Another password is
	// sent at once; if it is refused too, the next other one waits for LockEarly, which
	// doubles likewise. Negative: never.
	LockAfter                    int
	LockBase, LockMax, LockEarly time.Duration
}

func (o RestOptions) filled() RestOptions {
	if o.After == 0 {
		o.After = DefaultRestAfter
	}
	if o.Base <= 0 {
		o.Base = DefaultRestBase
	}
	if o.Max <= 0 {
		o.Max = DefaultRestMax
	}
	o.Max = max(o.Max, o.Base)
	o.LockAfter, o.LockBase, o.LockMax = cmp.Or(o.LockAfter, DefaultLockAfter), cmp.Or(o.LockBase, DefaultLockBase), cmp.Or(o.LockMax, DefaultLockMax)
	o.LockEarly = cmp.Or(o.LockEarly, DefaultLockEarly)
	return o
}

// Contact is how the calls to one BMC fare, for a condition. The zero value is
// a BMC that answers.
type Contact struct {
	// Failures in a row.
	Failures int
	// Since is when the first of them ended.
	Since time.Time
	// RestsUntil is when the BMC is called again; zero: it does not rest. Once it
	// is past, the next call decides.
	RestsUntil time.Time
	// Last is the class of the last failure, and Err the failure itself.
	Last Outcome
	Err  error
}

// Rests says whether calls are refused at a moment.
func (c Contact) Rests(now time.Time) bool { return now.Before(c.RestsUntil) }

// after returns the contact after one more call, which ended now with err. jitter
// is at random in [0, 1).
func (c Contact) after(err error, now time.Time, jitter float64, o RestOptions) Contact {
	outcome := OutcomeOf(err)
	switch outcome {
	case OutcomeUnreachable, OutcomeTimeout, OutcomeUnknownOutcome, OutcomeBusy, OutcomeRateLimited,
		OutcomeProtocol, OutcomeUnauthorized, OutcomeCertificate:
	case OutcomeCanceled, OutcomeAddress:
		return c // says nothing of the BMC
	default:
		return Contact{} // it answered, and with sense
	}
	if c.Failures == 0 {
		c.Since = now
	}
	c.Failures++
	c.Last, c.Err = outcome, err
	if o.After < 0 || c.Failures < o.After {
		c.RestsUntil = time.Time{}
		return c
	}
	rest := float64(o.Base) * math.Pow(2, float64(min(c.Failures-o.After, 40)))
	rest = min(rest, float64(o.Max)) * (1 - jitter/2)
	c.RestsUntil = now.Add(max(time.Duration(rest), min(asksToWait(err), maxAsked)))
	return c
}

// RestError refuses a call because the BMC failed often; nothing was sent. It
// wraps the last failure, by which the caller tells what is wrong.
type RestError struct {
	// RetryAfter is how long the rest still lasts.
	RetryAfter time.Duration
	Failures   int
	Err        error
}

// Error implements error.
func (e *RestError) Error() string {
	return fmt.Sprintf("left alone for %s after %d failures, the last: %v", e.RetryAfter.Round(time.Second), e.Failures, e.Err)
}

// Unwrap returns the last failure.
func (e *RestError) Unwrap() error { return e.Err }

// RetryAfter is when a call that failed with err is worth another try; 0: the
// error does not say.
func RetryAfter(err error) time.Duration {
	var rest *RestError
	if errors.As(err, &rest) {
		return rest.RetryAfter
	}
	return asksToWait(err)
}

func asksToWait(err error) time.Duration {
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy.RetryAfter
	}
	return 0
}
