// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"errors"
	"slices"
	"time"
)

// maxRefused bounds the passwords of one account that are remembered as refused, and
// maxAccounts the accounts of one BMC: a chassis has one for each of its nodes at most.
const (
	maxRefused  = 4
	maxAccounts = 64
)

// accounts are those of one BMC, by user name: BMCs count what is refused for each by
// itself, and that another gets in opens no lock. The zero value is ready.
type accounts map[string]logins

// logins are the refused ones of an account. BMCs lock an account after a few, for
// minutes from the last attempt on (OpenBMC 300 s, iDRAC 600 s, XCC up to an hour), and
// refuse the right password meanwhile: who asks again within that time keeps the account
// locked for ever, for people too. So after a few refusals the pauses grow past any
// lockout. The zero value is none.
type logins struct {
	// refused are the passwords that were; others get their chance at once. In memory
	// only, like the target.
	refused []Password
	// refusals in a row, by whatever password: the BMC counts them together.
	refusals int
	until    time.Time
	err      error
}

// spare refuses to send what was refused before its time.
func (a accounts) spare(target Target, now time.Time) error {
	l := a[target.Username]
	if !now.Before(l.until) || !slices.Contains(l.refused, target.Password) {
		return nil
	}
	return &RestError{RetryAfter: l.until.Sub(now), Failures: l.refusals, Err: l.err}
}

// after returns the accounts once a login went as err says. jitter is at random in [0, 1).
func (a accounts) after(target Target, err error, now time.Time, jitter float64, o RestOptions) accounts {
	switch {
	case err == nil:
		delete(a, target.Username)
		return a
	case !errors.Is(err, ErrUnauthorized) || o.LockAfter < 0:
		return a
	}
	if a == nil {
		a = accounts{}
	}
	l, known := a[target.Username]
	if !known && len(a) >= maxAccounts {
		a.dropOne()
	}
	a[target.Username] = l.refusedOnce(target.Password, err, now, jitter, o)
	return a
}

// dropOne forgets the account that may be asked again first.
func (a accounts) dropOne() {
	first, found := "", false
	for name, l := range a {
		if !found || l.until.Before(a[first].until) {
			first, found = name, true
		}
	}
	delete(a, first)
}

func (l logins) refusedOnce(password Password, err error, now time.Time, jitter float64, o RestOptions) logins {
	if !slices.Contains(l.refused, password) {
		l.refused = append(slices.Clone(l.refused), password)
		l.refused = l.refused[max(0, len(l.refused)-maxRefused):]
	}
	l.refusals, l.err = l.refusals+1, err
	if over := l.refusals - o.LockAfter; over >= 0 {
		wait := min(o.LockBase<<min(over, 16), o.LockMax)
		l.until = now.Add(wait + time.Duration(jitter/10*float64(wait)))
	}
	return l
}

// forgive lets the account be asked once more. What was refused is still counted: if the
// login is refused too, the pause after it is the longer.
func (a accounts) forgive(username string) {
	if l, known := a[username]; known {
		l.until = time.Time{}
		a[username] = l
	}
}
