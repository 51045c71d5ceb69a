// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"errors"
	"slices"
	"time"
)

// maxRefused bounds the credentials that are remembered as refused.
const maxRefused = 4

// logins are the refused ones of a BMC's account. BMCs lock an account after a few, for
// minutes from the last attempt on (OpenBMC 300 s, iDRAC 600 s, XCC up to an hour), and
// refuse the right password meanwhile: who asks again within that time keeps the account
// locked for ever, for people too. So after a few refusals the pauses grow past any
// lockout. The zero value is none.
type logins struct {
	// refused are the credentials that were; others get their chance at once. In memory
	// only, like the target.
	refused []credentials
	// refusals in a row, by whatever credentials: the BMC counts them together.
	refusals int
	until    time.Time
	err      error
}

type credentials struct {
	username string
	password Password
}

// spare refuses to send what was refused before its time.
func (l *logins) spare(target Target, now time.Time) error {
	if !now.Before(l.until) || !slices.Contains(l.refused, credentials{target.Username, target.Password}) {
		return nil
	}
	return &RestError{RetryAfter: l.until.Sub(now), Failures: l.refusals, Err: l.err}
}

// after notes how a login went. jitter is at random in [0, 1).
func (l *logins) after(target Target, err error, now time.Time, jitter float64, o RestOptions) {
	switch {
	case err == nil:
		*l = logins{}
		return
	case !errors.Is(err, ErrUnauthorized) || o.LockAfter < 0:
		return
	}
	if c := (credentials{target.Username, target.Password}); !slices.Contains(l.refused, c) {
		if l.refused = append(l.refused, c); len(l.refused) > maxRefused {
			l.refused = slices.Delete(l.refused, 0, 1)
		}
	}
	l.refusals, l.err = l.refusals+1, err
	if over := l.refusals - o.LockAfter; over >= 0 {
		wait := min(o.LockBase<<min(over, 16), o.LockMax)
		l.until = now.Add(wait + time.Duration(jitter/10*float64(wait)))
	}
}
