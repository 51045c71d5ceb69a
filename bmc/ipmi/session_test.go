// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/test/eventually"
)

// aged returns a connection with a clock that the test controls, and its BMC.
func aged(t *testing.T) (*conn, *labipmi.BMC, *time.Time) {
	t.Helper()
	b, err := labipmi.Start(labipmi.Config{Machine: &labbmc.Bench{}, Username: "admin", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c, err := Dial(t.Context(), bmc.Target{Address: b.Address(), Username: "admin", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	c.(*conn).now = func() time.Time { return clock }
	return c.(*conn), b, &clock
}

// TestOldSessionIsReplaced shows that a session that the BMC may have dropped is replaced
// before a call, so that no write is lost.
func TestOldSessionIsReplaced(t *testing.T) {
	c, b, clock := aged(t)
	first := c.session
	*clock = clock.Add(sessionLife - time.Second)
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.session != first {
		t.Error("a session in use was replaced")
	}
	*clock = clock.Add(sessionLife + time.Second)
	b.ForgetSessions() // as a BMC does after 60 s
	if err := c.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Errorf("a write after a long pause: %v", err)
	}
	if c.session == first {
		t.Error("an old session was kept")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := b.Sessions(); n != 0 {
		t.Errorf("%d sessions left open", n)
	}
}

// TestCloseOfOldSession shows that Close does not wait for the answer of a BMC that may have
// dropped the session. Otherwise a stopping manager would report every idle session as left
// open, after three seconds each.
func TestCloseOfOldSession(t *testing.T) {
	for name, tc := range map[string]struct {
		age     time.Duration
		answers bool
		lost    bool
	}{
		"old, dropped by the BMC":  {sessionLife + time.Second, false, false},
		"old, still open":          {sessionLife + time.Second, true, false},
		"young, the BMC is silent": {sessionLife - time.Second, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, b, clock := aged(t)
			*clock = clock.Add(tc.age)
			if !tc.answers {
				b.ForgetSessions()
				b.SetFaults(labipmi.Faults{Silent: true})
			}
			if err := c.Close(t.Context()); (err != nil) != tc.lost {
				t.Errorf("error %v, want one: %v", err, tc.lost)
			}
			// Close has sent the end without waiting.
			eventually.Wait{Limit: 10 * time.Second, Interval: time.Millisecond}.Until(t, "the session's end", eventually.Holds(func() bool { return b.Sessions() == 0 }))
		})
	}
}

// TestOffAfterRestart shows that Off is PowerUnknown for 15 seconds after a restart.
func TestOffAfterRestart(t *testing.T) {
	c, b, clock := aged(t)
	if err := c.SetPower(t.Context(), bmc.ActionForceRestart); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  bmc.PowerState
	}{
		{0, bmc.PowerUnknown}, {restartWindow - time.Second, bmc.PowerUnknown}, {time.Second, bmc.PowerOff},
	} {
		*clock = clock.Add(step.after)
		if got, err := c.PowerState(t.Context()); err != nil || got != step.want {
			t.Errorf("%s, %v, want %s", got, err, step.want)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := b.Sessions(); n != 0 {
		t.Errorf("%d sessions left open", n)
	}
}

// BenchmarkConnect opens and closes a session: eight round trips.
func BenchmarkConnect(b *testing.B) {
	sim, err := labipmi.Start(labipmi.Config{Machine: &labbmc.Bench{}, Username: "admin", Password: "secret"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sim.Close() })
	target := bmc.Target{Address: sim.Address(), Username: "admin", Password: "secret"}
	for b.Loop() {
		c, err := Dial(b.Context(), target)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOtherBMCAtTheAddress shows that a call sends nothing to another BMC than that of the
// previous session, and that no session stays open.
func TestOtherBMCAtTheAddress(t *testing.T) {
	start := func(uuid string) *labipmi.BMC {
		b, err := labipmi.Start(labipmi.Config{
			Machine: &labbmc.Bench{}, Username: "admin", Password: "secret", System: labbmc.System{BMCUUID: uuid},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	first, second := start("11111111-2222-4333-8444-555555555555"), start("99999999-2222-4333-8444-555555555555")
	clock := time.Now()
	dialed, err := Dial(t.Context(), bmc.Target{Address: first.Address(), Username: "admin", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	c := dialed.(*conn)
	c.now = func() time.Time { return clock }
	host := c.host
	if c.host, err = parseAddress(second.Address()); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(sessionLife + time.Second)
	first.ForgetSessions()
	if err := c.SetPower(t.Context(), bmc.ActionOn); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("another BMC: %v, want ErrUnauthorized", err)
	}
	for _, command := range second.Commands() {
		if command.NetFn == netFnChassis {
			t.Errorf("the other BMC received %s", command)
		}
	}
	c.host = host
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Errorf("the same BMC again: %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for i, b := range []*labipmi.BMC{first, second} {
		if n := b.Sessions(); n != 0 {
			t.Errorf("%d sessions left open at BMC %d", n, i+1)
		}
	}
}
