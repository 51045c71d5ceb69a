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

const (
	// maxRefused bounds the refused passwords that are remembered per account.
	maxRefused = 4
	// maxAccounts bounds the accounts per BMC: a chassis has at most one per node.
	maxAccounts = 64
	// maxPeers bounds the BMCs with refused logins.
	maxPeers = 20_000
)

// accounts holds the refused logins of one BMC, by user name. BMCs count refusals per account, and
// a successful login of another account lifts no lock. The zero value is ready.
type accounts map[string]refusedLogins

// refusedLogins are the refused logins of one account. BMCs lock an account after a few of them and
// then refuse the correct password too. The lock lasts for minutes from the last attempt (OpenBMC
// 300 s, iDRAC 600 s, XCC up to an hour). A client that retries within that time keeps the account
// locked permanently, for operators too. So the pauses grow past any lockout. The zero value means
// none.
type refusedLogins struct {
	// passwords are the refused ones. They are kept in memory only, like the target.
	passwords []Password
	// count is the number of refusals in a row, of any password: the BMC counts them together.
	count int
	// until is when a refused password may be sent again.
	until time.Time
	// early counts the refused logins before until, with a new password or after
	// allowRetry. nextEarly is when the next such login may be sent.
	early     int
	nextEarly time.Time
	// retryAllowed lets a refused password be sent as early as a new one.
	retryAllowed bool
	// last is when the last login was refused, and err the reason.
	last time.Time
	err  error
}

// accountOf returns the account key of a user name. Some BMCs ignore the case of names.
func accountOf(username string) string { return strings.ToLower(username) }

// check refuses to send credentials before their time. A new password may be sent earlier
// than a refused one, since an operator may have corrected it. All new passwords share that
// time: to try one after the other is to guess, and locks the account.
func (a accounts) check(target Target, now time.Time) error {
	l := a[accountOf(target.Username)]
	due := l.until
	if l.retryAllowed || !slices.Contains(l.passwords, target.Password) {
		due = l.nextEarly
	}
	if !now.Before(due) {
		return nil
	}
	return &PausedError{RetryAfter: due.Sub(now), Failures: l.count, Err: l.err}
}

// after returns the accounts after a login that ended with err. jitter is a random number
// in [0, 1).
func (a accounts) after(target Target, err error, now time.Time, jitter float64, o PauseOptions) accounts {
	account := accountOf(target.Username)
	switch {
	case err == nil:
		delete(a, account)
		return a
	case !errors.Is(err, ErrUnauthorized) || o.LockAfter < 0:
		return a
	}
	if a == nil {
		a = accounts{}
	}
	l, known := a[account]
	if !known && len(a) >= maxAccounts {
		a.evictOne()
	}
	a[account] = l.add(target.Password, err, now, jitter, o)
	return a
}

// evictOne removes the account that may log in again first.
func (a accounts) evictOne() {
	delete(a, slices.MinFunc(slices.Collect(maps.Keys(a)), func(x, y string) int { return a[x].until.Compare(a[y].until) }))
}

func (l refusedLogins) add(password Password, err error, now time.Time, jitter float64, o PauseOptions) refusedLogins {
	if now.Before(l.until) {
		l.nextEarly = now.Add(min(o.LockEarly<<min(l.early, 16), o.LockMax))
		l.early++
	}
	if !slices.Contains(l.passwords, password) {
		l.passwords = append(slices.Clone(l.passwords), password)
		l.passwords = l.passwords[max(0, len(l.passwords)-maxRefused):]
	}
	l.count, l.err, l.last, l.retryAllowed = l.count+1, err, now, false
	if over := l.count - o.LockAfter; over >= 0 {
		wait := min(o.LockBase<<min(over, 16), o.LockMax)
		l.until = now.Add(wait + time.Duration(jitter/10*float64(wait)))
	}
	return l
}

// allowRetry lets the account log in once more, as early as with a new password. The
// refusals still count: if the BMC refuses the login, the pauses grow.
func (a accounts) allowRetry(username string) {
	if l, known := a[accountOf(username)]; known {
		l.retryAllowed = true
		a[accountOf(username)] = l
	}
}

// loginGuard holds the accounts of BMCs with refused logins. The keys are the origin of an address,
// and the IP address and port that it led to: one BMC has one count of refusals, under every name
// and across deletion and registration of its hosts. The zero value is ready.
type loginGuard struct {
	mu sync.Mutex
	m  map[string]accounts
}

// check refuses to send credentials to a peer before their time.
func (g *loginGuard) check(peer string, target Target, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m[peer].check(target, now)
}

// record remembers the result of a login at the peers.
func (g *loginGuard) record(peers []string, target Target, err error, now time.Time, jitter float64, o PauseOptions) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, peer := range peers {
		known := g.m[peer]
		after := known.after(target, err, now, jitter, o)
		if len(after) == 0 {
			delete(g.m, peer)
			continue
		}
		if known == nil && len(g.m) >= maxPeers {
			g.evict(now, o)
		}
		if g.m == nil {
			g.m = map[string]accounts{}
		}
		g.m[peer] = after
	}
}

// evict removes expired accounts, and then any peers until there is room for one.
func (g *loginGuard) evict(now time.Time, o PauseOptions) {
	maps.DeleteFunc(g.m, func(_ string, a accounts) bool {
		maps.DeleteFunc(a, func(_ string, l refusedLogins) bool { return now.After(l.last.Add(2 * o.LockMax)) })
		return len(a) == 0
	})
	maps.DeleteFunc(g.m, func(string, accounts) bool { return len(g.m) >= maxPeers })
}

// allowRetry lets an account log in once more at the peers.
func (g *loginGuard) allowRetry(peers []string, username string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, peer := range peers {
		g.m[peer].allowRetry(username)
	}
}
