// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// lockable is an account that behaves like those of BMCs: after max refused logins it also refuses
// the correct password, for a lockout after the last attempt (pam_faillock on OpenBMC).
type lockable struct {
	fakeBMC
	right     bmc.Password
	most      int
	lockout   time.Duration
	refused   int
	last      time.Time
	locked    int
	logins    []time.Time
	passwords []string
}

func (l *lockable) dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	now := time.Now()
	l.logins = append(l.logins, now)
	l.passwords = append(l.passwords, target.Password.Reveal())
	isLocked := l.refused >= l.most && now.Sub(l.last) < l.lockout
	switch {
	case l.refused >= l.most && !isLocked:
		l.refused = 0
		fallthrough
	case !isLocked && target.Password == l.right:
		if target.Password == l.right {
			l.refused = 0
			return l.fakeBMC.dial(ctx, target)
		}
	}
	if isLocked {
		l.locked++
	}
	l.refused++
	l.last = now
	return nil, fmt.Errorf("login: %w", bmc.ErrUnauthorized)
}

// retryUntil retries like a host's controller: after 5 s, then with doubled pauses of at
// most 5 minutes, unless the pool requests another pause.
func retryUntil(t *testing.T, pool *bmc.Pool, total time.Duration, target func(n int) bmc.Target) (err error) {
	t.Helper()
	wait, began := 5*time.Second, time.Now()
	for n := 0; time.Since(began) < total; n++ {
		if err = pool.Do(t.Context(), target(n), readState); err == nil {
			return nil
		}
		time.Sleep(max(wait, min(bmc.RetryAfter(err), 5*time.Minute)))
		wait = min(2*wait, 5*time.Minute)
	}
	return err
}

// TestPoolLetsLockedAccountsRecover shows that the correct password succeeds after the
// lockout of any vendor, regardless of the client that caused the lockout.
func TestPoolLetsLockedAccountsRecover(t *testing.T) {
	for _, tc := range []struct {
		name    string
		lockout time.Duration
		within  time.Duration
	}{
		{"OpenBMC", 300 * time.Second, 15 * time.Minute},
		{"iDRAC", 600 * time.Second, 45 * time.Minute},
		{"XCC", time.Hour, 4 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lockable{fakeBMC: fakeBMC{t: t}, right: "secret", most: 3, lockout: tc.lockout, refused: 3, last: time.Now()}
				pool := newPool(t, l.dial, bmc.PoolOptions{})
				if err := retryUntil(t, pool, tc.within, func(int) bmc.Target { return target("a") }); err != nil {
					t.Errorf("locked permanently: %v after %d logins", err, len(l.logins))
				}
			})
		})
	}
}

// TestPoolDelaysRefusedLogins shows that a wrong password is sent three times and then with
// growing pauses, and that a corrected one is sent at once.
func TestPoolDelaysRefusedLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lockable{fakeBMC: fakeBMC{t: t}, right: "corrected", most: 1000}
		pool := newPool(t, l.dial, bmc.PoolOptions{})
		err := retryUntil(t, pool, 25*time.Minute, func(int) bmc.Target { return target("a") })
		var rest *bmc.PausedError
		if !errors.Is(err, bmc.ErrUnauthorized) || len(l.logins) != 5 {
			t.Errorf("error %v after %d logins in 25 minutes, want 5", err, len(l.logins))
		}
		if err := pool.Do(t.Context(), target("a"), readState); !errors.As(err, &rest) || rest.Failures != 5 || rest.RetryAfter < 10*time.Minute {
			t.Errorf("error %v, want a long pause after 5", err)
		}
		for i := 3; i < len(l.logins); i++ {
			if d := l.logins[i].Sub(l.logins[i-1]); d <= 300*time.Second {
				t.Errorf("login %d came %s after the one before, within the lockout", i, d)
			}
		}
		if c := pool.CallStatus("a"); c.Last != bmc.OutcomeUnauthorized {
			t.Errorf("contact %+v", c)
		}
		corrected := target("a")
		corrected.Password = "corrected"
		must(t, pool.Do(t.Context(), corrected, readState))
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnauthorized) || l.passwords[len(l.passwords)-1] != "secret" {
			t.Errorf("a success did not reset the refusals: %v, sent %v", err, l.passwords)
		}
	})
}

// TestPoolBoundsGuesses shows that an account receives only a few different passwords, under every
// name of the BMC and across registrations of its host. The correct one succeeds within minutes.
func TestPoolBoundsGuesses(t *testing.T) {
	victim := netip.MustParseAddrPort("10.0.0.9:443")
	for _, tc := range []struct {
		name    string
		address func(n int) string
		forget  bool
	}{
		{"one address", func(int) string { return "redfish://a" }, false},
		{"registered again", func(int) string { return "redfish://a" }, true},
		{"two names", func(n int) string { return []string{"redfish://a", "redfish://b"}[n%2] }, false},
		{"a name for each password", func(n int) string { return fmt.Sprintf("redfish://a%d.example", n) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lockable{fakeBMC: fakeBMC{t: t}, right: "corrected", most: 1000}
				pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
					if err := target.Connecting("a", victim); err != nil {
						return nil, fmt.Errorf("dial: %w: %w", bmc.ErrUnreachable, err)
					}
					return l.dial(ctx, target)
				}, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
				guess := func(n int, password bmc.Password) error {
					at := target(tc.address(n))
					at.Password = password
					if tc.forget {
						defer pool.Forget(at.Address)
					}
					pool.RetryNow(at) // as the controller does when the Secret changes
					return pool.Do(t.Context(), at, readState)
				}
				for n := range 100 {
					if err := guess(n, bmc.Password(fmt.Sprint("guess-", n))); !errors.Is(err, bmc.ErrUnauthorized) {
						t.Fatalf("guess %d: %v", n, err)
					}
				}
				if n := len(l.logins); n > bmc.DefaultLockAfter+1 {
					t.Errorf("%d of 100 guesses were sent at once", n)
				}
				time.Sleep(time.Minute)
				if err := guess(0, "corrected"); err != nil {
					t.Errorf("the correct password after a minute: %v", err)
				}
			})
		})
	}
}

// TestPoolDelaysAlternatingPasswords shows that trying two passwords in turn, as in a
// rotation with an unknown outcome, does not keep the account locked.
func TestPoolDelaysAlternatingPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lockable{fakeBMC: fakeBMC{t: t}, right: "new", most: 3, lockout: 300 * time.Second}
		l.refused, l.last = 3, time.Now()
		pool := newPool(t, l.dial, bmc.PoolOptions{})
		err := retryUntil(t, pool, 2*time.Hour, func(n int) bmc.Target {
			either := target("a")
			either.Password = []bmc.Password{"old", "new"}[n%2]
			return either
		})
		if err != nil {
			t.Errorf("locked permanently: %v, sent %v", err, l.passwords)
		}
	})
}

// TestPoolCountsOnlyLogins shows that refused calls of a session do not lock an account.
func TestPoolCountsOnlyLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, callErr: func(_ *fakeConn, name string) error {
			if name == "state" {
				return bmc.ErrUnauthorized
			}
			return nil
		}}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		for range 10 {
			err := pool.Do(t.Context(), target("a"), readState)
			if wait := bmc.RetryAfter(err); wait > bmc.DefaultPauseMax {
				t.Fatalf("paused for %s", wait)
			}
			time.Sleep(time.Minute)
		}
		if n := f.count("dial "); n != 10 {
			t.Errorf("%d logins, want 10", n)
		}
	})
}

// TestPoolCountsEachAccount shows that a login of another account of the same BMC, such as
// the one of another chassis node, does not end a pause.
func TestPoolCountsEachAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused []time.Time
		f := &fakeBMC{t: t}
		pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
			if target.Username == "wrong" {
				refused = append(refused, time.Now())
				return nil, fmt.Errorf("login: %w", bmc.ErrUnauthorized)
			}
			return f.dial(ctx, target)
		}, bmc.PoolOptions{})
		wrong := target(node2)
		wrong.Username = "wrong"
		for range 120 { // two hours
			must(t, pool.Do(t.Context(), target(node1), readState))
			if err := pool.Do(t.Context(), wrong, readState); !errors.Is(err, bmc.ErrUnauthorized) {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		for i := bmc.DefaultLockAfter; i < len(refused); i++ {
			if d := refused[i].Sub(refused[i-1]); d <= 300*time.Second {
				t.Errorf("login %d came %s after the one before, within the lockout", i, d)
			}
		}
		if n := len(refused); n < 5 || n > 8 {
			t.Errorf("%d logins in two hours", n)
		}
	})
}

// TestPoolBoundsAccounts shows that many user names use bounded memory and do not evict the
// account with the longest pause.
func TestPoolBoundsAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		pool := newPool(t, func(context.Context, bmc.Target) (bmc.Conn, error) {
			sent++
			return nil, bmc.ErrUnauthorized
		}, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
		for range bmc.DefaultLockAfter {
			_ = pool.Do(t.Context(), target("a"), readState)
		}
		for i := range 1000 {
			other := target("a")
			other.Username = fmt.Sprint("user-", i)
			_ = pool.Do(t.Context(), other, readState)
		}
		before := sent
		if err := pool.Do(t.Context(), target("a"), readState); !errors.Is(err, bmc.ErrUnauthorized) || sent != before {
			t.Errorf("the locked account was used: %v", err)
		}
	})
}

// TestForgiveAllowsOneLogin shows that Forgive sends a refused password once, and that
// another refusal prolongs the pause.
func TestForgiveAllowsOneLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lockable{fakeBMC: fakeBMC{t: t}, right: "not yet", most: 1000}
		pool := newPool(t, l.dial, bmc.PoolOptions{})
		pool.RetryNow(target("a")) // unknown yet
		_ = retryUntil(t, pool, time.Hour, func(int) bmc.Target { return target("a") })
		pause := func() time.Duration {
			t.Helper()
			before := len(l.logins)
			err := pool.Do(t.Context(), target("a"), readState)
			if !errors.Is(err, bmc.ErrUnauthorized) || len(l.logins) != before {
				t.Fatalf("not paused: %v", err)
			}
			return bmc.RetryAfter(err)
		}
		before := pause()
		other := target("a")
		other.Username = "another"
		pool.RetryNow(other)
		pause()
		for n := range 3 {
			if n > 0 { // the first retry is sent at once, later ones wait
				pool.RetryNow(target("a"))
				pause()
				time.Sleep(bmc.DefaultLockEarly << (n - 1))
			}
			pool.RetryNow(target("a"))
			sent := len(l.logins)
			_ = pool.Do(t.Context(), target("a"), readState)
			if n := len(l.logins) - sent; n != 1 {
				t.Errorf("%d logins, want one", n)
			}
		}
		if after := pause(); after < before {
			t.Errorf("paused for %s after a refusal, %s before", after, before)
		}
		l.right = target("a").Password
		pool.RetryNow(target("a"))
		time.Sleep(4 * time.Minute)
		must(t, pool.Do(t.Context(), target("a"), readState))
	})
}

// TestForgiveEndsThePause shows that Forgive allows a call at once.
func TestForgiveEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBMC{t: t, dialErr: bmc.ErrUnreachable}
		pool := newPool(t, f.dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: 2, Base: time.Hour, Max: time.Hour}})
		var paused *bmc.PausedError
		for range 3 {
			_ = pool.Do(t.Context(), target("a"), readState)
		}
		f.dialErr = nil
		if err := pool.Do(t.Context(), target("a"), readState); !errors.As(err, &paused) {
			t.Fatalf("error %v, want a pause", err)
		}
		pool.RetryNow(target("a"))
		must(t, pool.Do(t.Context(), target("a"), readState))
	})
}
