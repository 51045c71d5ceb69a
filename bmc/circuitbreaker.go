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

// Defaults of PauseOptions.
const (
	DefaultPauseAfter = 3
	DefaultPauseBase  = time.Second
	DefaultPauseMax   = 30 * time.Second
	// After the third refused login in a row, the next one waits longer than OpenBMC locks
	// an account (300 s). Later pauses exceed the lockout of every known vendor.
	DefaultLockAfter = 3
	DefaultLockBase  = 6 * time.Minute
	DefaultLockMax   = 65 * time.Minute
	DefaultLockEarly = time.Minute
)

// maxRetryAfter bounds the pause that a BMC may request for all callers.
const maxRetryAfter = 5 * time.Minute

// PauseOptions control when Ingot pauses the calls to a failing BMC; zero fields mean the defaults.
type PauseOptions struct {
	// After is the number of failures in a row that starts a pause; negative: never.
	After int
	// Base is the first pause; each further failure doubles it, up to Max. A pause is shortened at
	// random by up to a half, so that BMCs that failed together are not called together.
	Base, Max time.Duration
	// LockAfter is the number of refused logins in a row after which Ingot stops sending refused
	// credentials; negative: never. The pause starts with LockBase, doubles with each further
	// refusal up to LockMax, and is prolonged at random by up to a tenth: a retry within a BMC's
	// lockout prolongs the lockout. A new password is sent at once. If the BMC refuses it too, the
	// next new password waits for LockEarly, which doubles likewise.
	LockAfter                    int
	LockBase, LockMax, LockEarly time.Duration
}

func (o PauseOptions) filled() PauseOptions {
	o.After = cmp.Or(o.After, DefaultPauseAfter)
	o.Base, o.Max = cmp.Or(max(o.Base, 0), DefaultPauseBase), cmp.Or(max(o.Max, 0), DefaultPauseMax)
	o.Max = max(o.Max, o.Base)
	o.LockAfter, o.LockBase = cmp.Or(o.LockAfter, DefaultLockAfter), cmp.Or(o.LockBase, DefaultLockBase)
	o.LockMax, o.LockEarly = cmp.Or(o.LockMax, DefaultLockMax), cmp.Or(o.LockEarly, DefaultLockEarly)
	return o
}

// CallStatus summarizes the recent calls to one BMC, for a condition. The zero value is a BMC
// that answers.
type CallStatus struct {
	// Failures counts the failures in a row.
	Failures int
	// Since is when the first of them ended.
	Since time.Time
	// PausedUntil is the end of the pause; zero: there is no pause. After that time, the
	// next call decides.
	PausedUntil time.Time
	// Last is the class of the last failure, and Err the failure itself.
	Last Outcome
	Err  error
}

// IsPaused reports whether calls are refused at a time.
func (c CallStatus) IsPaused(now time.Time) bool { return now.Before(c.PausedUntil) }

// after returns the contact after one more call, which ended now with err. jitter is a
// random number in [0, 1).
func (c CallStatus) after(err error, now time.Time, jitter float64, o PauseOptions) CallStatus {
	outcome := OutcomeOf(err)
	switch outcome {
	case OutcomeUnreachable, OutcomeTimeout, OutcomeUnknownOutcome, OutcomeBusy, OutcomeRateLimited,
		OutcomeProtocol, OutcomeUnauthorized, OutcomeCertificate:
	case OutcomeCanceled, OutcomeAddress:
		return c // no information about the BMC
	default:
		return CallStatus{} // the BMC gave a valid answer
	}
	if c.Failures == 0 {
		c.Since = now
	}
	c.Failures++
	c.Last, c.Err, c.PausedUntil = outcome, err, time.Time{}
	if o.After < 0 || c.Failures < o.After {
		return c
	}
	pause := float64(o.Base) * math.Pow(2, float64(min(c.Failures-o.After, 40)))
	pause = min(pause, float64(o.Max)) * (1 - jitter/2)
	c.PausedUntil = now.Add(max(time.Duration(pause), min(requestedWait(err), maxRetryAfter)))
	return c
}

// PausedError refuses a call because the BMC failed often; nothing was sent. It wraps the
// last failure.
type PausedError struct {
	// RetryAfter is the remaining pause.
	RetryAfter time.Duration
	Failures   int
	Err        error
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("calls are paused for %s after %d failures: %v", e.RetryAfter.Round(time.Second), e.Failures, e.Err)
}

// Unwrap returns the last failure.
func (e *PausedError) Unwrap() error { return e.Err }

// RetryAfter returns how long to wait before a retry of a call that failed with err; 0:
// the error does not specify it.
func RetryAfter(err error) time.Duration {
	if paused, ok := errors.AsType[*PausedError](err); ok {
		return paused.RetryAfter
	}
	return requestedWait(err)
}

// requestedWait returns the pause that the BMC itself asked for; 0: none.
func requestedWait(err error) time.Duration {
	if busy, ok := errors.AsType[*BusyError](err); ok {
		return busy.RetryAfter
	}
	return 0
}
