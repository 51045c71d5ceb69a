// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxRefused bounds the passwords of one account that are remembered as refused, and
// maxAccounts the accounts of one BMC: a chassis has one for each of its nodes at most.
// maxPeers bounds the BMCs with refused logins.
const (
	maxRefused  = 4
	maxAccounts = 64
	maxPeers    = 20_000
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
	// refused are the passwords that were. In memory only, like the target.
	refused []Password
	// refusals in a row, by whatever password: the BMC counts them together.
	refusals int
	// until is when a refused password may be sent again.
	until time.Time
	// early counts the logins that were refused before until: with a password that was
	// not refused yet, or forgiven. nextEarly is when the next such login may be sent.
	early     int
	nextEarly time.Time
	// forgiven lets a refused password be sent as early as another one.
	forgiven bool
	// last is when the last login was refused, and err why.
	last time.Time
	err  error
}

// accountOf is the account that a user name means: on some BMCs names differ in case only
// for people.
func accountOf(username string) string { return strings.ToLower(username) }

// spare refuses to send credentials before their time. A password that was not refused
// yet has an earlier time than a refused one: a person may have corrected it. But the
// passwords share that time, however many there are: to try one after the other is to
// guess, and locks the account.
func (a accounts) spare(target Target, now time.Time) error {
	l := a[accountOf(target.Username)]
	due := l.until
	if l.forgiven || !slices.Contains(l.refused, target.Password) {
		due = l.nextEarly
	}
	if !now.Before(due) {
		return nil
	}
	return &RestError{RetryAfter: due.Sub(now), Failures: l.refusals, Err: l.err}
}

// after returns the accounts once a login went as err says. jitter is at random in [0, 1).
func (a accounts) after(target Target, err error, now time.Time, jitter float64, o RestOptions) accounts {
	switch {
	case err == nil:
		delete(a, accountOf(target.Username))
		return a
	case !errors.Is(err, ErrUnauthorized) || o.LockAfter < 0:
		return a
	}
	if a == nil {
		a = accounts{}
	}
	l, known := a[accountOf(target.Username)]
	if !known && len(a) >= maxAccounts {
		a.dropOne()
	}
	a[accountOf(target.Username)] = l.refusedOnce(target.Password, err, now, jitter, o)
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
	if now.Before(l.until) {
		l.nextEarly = now.Add(min(o.LockEarly<<min(l.early, 16), o.LockMax))
		l.early++
	}
	if !slices.Contains(l.refused, password) {
		l.refused = append(slices.Clone(l.refused), password)
		l.refused = l.refused[max(0, len(l.refused)-maxRefused):]
	}
	l.refusals, l.err, l.last, l.forgiven = l.refusals+1, err, now, false
	if over := l.refusals - o.LockAfter; over >= 0 {
		wait := min(o.LockBase<<min(over, 16), o.LockMax)
		l.until = now.Add(wait + time.Duration(jitter/10*float64(wait)))
	}
	return l
}

// forgive lets the account be asked once more, as early as with another password. What
// was refused is still counted: if the login is refused too, the pauses grow.
func (a accounts) forgive(username string) {
	if l, known := a[accountOf(username)]; known {
		l.forgiven = true
		a[accountOf(username)] = l
	}
}

// loginLedger keeps the accounts of BMCs with refused logins, by the peer that a BMC is:
// the place that an address names, and the IP address and port that it led to. One BMC
// has one count of refusals, by whatever name it is reached and however often its hosts
// are deleted and registered again. The zero value is ready.
type loginLedger struct {
	mu sync.Mutex
	m  map[string]accounts
}

// spare refuses to send credentials to a peer before their time.
func (g *loginLedger) spare(peer string, target Target, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m[peer].spare(target, now)
}

// note remembers how a login at the peers went.
func (g *loginLedger) note(peers []string, target Target, err error, now time.Time, jitter float64, o RestOptions) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, peer := range peers {
		known := g.m[peer]
		after := known.after(target, err, now, jitter, o)
		switch {
		case len(after) == 0:
			delete(g.m, peer)
			continue
		case known == nil && len(g.m) >= maxPeers:
			g.sweep(now, o)
		}
		if g.m == nil {
			g.m = map[string]accounts{}
		}
		g.m[peer] = after
	}
}

// sweep forgets what is past, and if that is not enough, any one peer.
func (g *loginLedger) sweep(now time.Time, o RestOptions) {
	maps.DeleteFunc(g.m, func(_ string, a accounts) bool {
		maps.DeleteFunc(a, func(_ string, l logins) bool { return now.After(l.last.Add(2 * o.LockMax)) })
		return len(a) == 0
	})
	for peer := range g.m {
		if len(g.m) < maxPeers {
			return
		}
		delete(g.m, peer)
	}
}

// forgive lets an account be asked once more at the peers.
func (g *loginLedger) forgive(peers []string, username string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, peer := range peers {
		g.m[peer].forgive(username)
	}
}
