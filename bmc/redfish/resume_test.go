// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
)

// expiring is a context whose deadline passes at the first request after a number of answers.
type expiring struct {
	context.Context
	done chan struct{}
	left atomic.Int32
}

func expireAfter(parent context.Context, answers int32) *expiring {
	e := &expiring{Context: parent, done: make(chan struct{})}
	e.left.Store(answers)
	return e
}

// expires counts a request and reports whether the deadline has passed.
func (e *expiring) expires() bool {
	left := e.left.Add(-1)
	if left == -1 {
		close(e.done)
	}
	return left < 0
}

// Done implements context.Context.
func (e *expiring) Done() <-chan struct{} { return e.done }

// Err implements context.Context.
func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// slow makes the BMC answer reads of a call until its context expires. asked counts the requests.
func (r *rig) slow(call *atomic.Pointer[expiring], asked *atomic.Int32) {
	r.SetFaults(labbmc.Faults{Hang: true, Match: func(method, _ string) bool {
		if method != http.MethodGet {
			return false
		}
		asked.Add(1)
		return call.Load().expires()
	}})
}

// longReads are those that a slow BMC does not end within one call.
var longReads = map[string]func(context.Context, bmc.Conn) (any, error){
	"Inventory": func(ctx context.Context, c bmc.Conn) (any, error) { return c.Inventory(ctx) },
	"Firmware": func(ctx context.Context, c bmc.Conn) (any, error) {
		items, err := c.FirmwareInventory(ctx)
		for i := range items {
			items[i].FromEarlierRead = false
		}
		return items, err
	},
	"Health": func(ctx context.Context, c bmc.Conn) (any, error) { return c.Health(ctx) },
}

// TestUnfinishedReadResumes checks that a BMC that answers one request within each call is read
// completely after some calls, that each resource is requested once unless its answer came too
// late, and that the BMC does not count as failing.
func TestUnfinishedReadResumes(t *testing.T) {
	for name, read := range longReads {
		t.Run(name, func(t *testing.T) {
			eachPersonality(t, func(t *testing.T, r *rig) {
				want, err := read(t.Context(), r.dial(t))
				if err != nil {
					t.Fatal(err)
				}
				pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: 1}, SlowCalls: bmc.SlowCallOptions{Limit: -1}})
				defer closePool(t, pool)
				got, calls, requests := r.readSlowly(t, pool, read)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("what was read in parts (-want +got):\n%s", diff)
				}
				if calls < 3 || requests != 2*calls-1 {
					t.Errorf("%d requests in %d calls, want one that is answered and one that is not in each", requests, calls)
				}
			})
		})
	}
}

// TestUnfinishedReadsInterleave checks that unfinished reads progress although other reads, also
// of another system, come in between.
func TestUnfinishedReadsInterleave(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) { c.Personality, _ = personality.Named("dell-idrac9") })
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: 1}, SlowCalls: bmc.SlowCallOptions{Limit: -1}})
	defer closePool(t, pool)
	whole := r.dial(t)
	unread := map[string]any{}
	for name, read := range longReads {
		want, err := read(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		unread[name] = want
	}
	if err := pool.Do(t.Context(), r.target, readState); err != nil {
		t.Fatal(err)
	}
	try := r.slowly(pool, new(atomic.Int32))
	for range 100 {
		for name, want := range unread {
			got, err := try(t, longReads[name])
			if errors.Is(err, bmc.ErrUnfinished) {
				continue
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatalf("%s: %v (-want +got):\n%s", name, err, diff)
			}
			delete(unread, name)
		}
		if len(unread) == 0 {
			r.SetFaults()
			return
		}
	}
	t.Errorf("%d reads came to no end", len(unread))
}

// TestUnfinishedReadsOfTwoSystems checks that unfinished reads of two systems that share a session
// progress separately.
func TestUnfinishedReadsOfTwoSystems(t *testing.T) {
	r := newNamed(t, "openbmc", func(c *labbmc.Config) { c.Personality.Quirks.Systems, c.MaxSessions = 2, 1 })
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: 1}, SlowCalls: bmc.SlowCallOptions{Limit: -1}})
	defer closePool(t, pool)
	address, unread := r.target.Address, map[string]bool{r.SystemPath(): true, "/redfish/v1/Systems/other-1": true}
	r.target.Address = address + r.SystemPath()
	if err := pool.Do(t.Context(), r.target, readState); err != nil {
		t.Fatal(err)
	}
	try := r.slowly(pool, new(atomic.Int32))
	for range 50 {
		for path := range unread {
			r.target.Address = address + path
			got, err := try(t, longReads["Inventory"])
			if errors.Is(err, bmc.ErrUnfinished) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if id := got.(bmc.Inventory).Identity.SystemID; id != path {
				t.Errorf("requested %s, got %s", path, id)
			}
			delete(unread, path)
		}
		if len(unread) == 0 {
			r.SetFaults()
			return
		}
	}
	t.Errorf("%d systems came to no end", len(unread))
}

// slowly returns a function that tries a read with a BMC that answers one request of each call.
// asked counts the requests.
func (r *rig) slowly(pool *bmc.Pool, asked *atomic.Int32) func(t *testing.T, read func(context.Context, bmc.Conn) (any, error)) (any, error) {
	var call atomic.Pointer[expiring]
	r.slow(&call, asked)
	return func(t *testing.T, read func(context.Context, bmc.Conn) (any, error)) (got any, err error) {
		t.Helper()
		call.Store(expireAfter(t.Context(), 1))
		err = pool.Do(call.Load(), r.target, func(ctx context.Context, c bmc.Conn) (err error) {
			got, err = read(ctx, c)
			return err
		})
		return got, err
	}
}

// readSlowly reads from a BMC that answers one request of each call.
func (r *rig) readSlowly(t *testing.T, pool *bmc.Pool, read func(context.Context, bmc.Conn) (any, error)) (_ any, calls, requests int) {
	t.Helper()
	if err := pool.Do(t.Context(), r.target, readState); err != nil { // the session
		t.Fatal(err)
	}
	var asked atomic.Int32
	try := r.slowly(pool, &asked)
	for {
		calls++
		got, err := try(t, read)
		if err == nil {
			r.SetFaults()
			return got, calls, int(asked.Load())
		}
		if !errors.Is(err, bmc.ErrUnfinished) || !errors.Is(err, bmc.ErrBusy) || bmc.OutcomeOf(err) != bmc.OutcomeUnfinished || calls > 200 {
			t.Fatalf("call %d: %v", calls, err)
		}
	}
}

// TestFailedReadsAreNotKept checks that a failed read ends the call and is repeated in the next
// one, and that a single item is always read again.
func TestFailedReadsAreNotKept(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) {
		c.Personality, _ = personality.Named("dell-idrac9")
		c.Personality.Quirks.Expand = false
	})
	conn := r.dial(t)
	want, err := conn.FirmwareInventory(t.Context())
	if err != nil || len(want) < 2 {
		t.Fatalf("%d items, %v", len(want), err)
	}
	of := func(id string) func(string, string) bool { return func(_, path string) bool { return path == id } }
	r.SetFaults(labbmc.Faults{Status: 500, Match: of(want[1].ID)})
	if _, err := conn.FirmwareInventory(t.Context()); !errors.Is(err, bmc.ErrBusy) || errors.Is(err, bmc.ErrUnfinished) {
		t.Fatalf("an unreadable item: %v", err)
	}
	r.SetFaults(labbmc.Faults{Status: 404, Match: of(want[0].ID)})
	if _, err := conn.(bmc.FirmwareReader).FirmwareItem(t.Context(), want[0].ID); !errors.Is(err, bmc.ErrNotSupported) {
		t.Errorf("a removed item: %v", err)
	}
	r.SetFaults()
	if got, err := conn.FirmwareInventory(t.Context()); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("nothing of it was read earlier: %v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	if got, err := conn.(bmc.FirmwareReader).FirmwareItem(t.Context(), want[1].ID); err != nil || got != want[1] {
		t.Errorf("an item: %+v, %v", got, err)
	}
}

// TestKeptAnswersAreBounded checks that at most 1 MiB of answers is kept, for at most 30 minutes,
// and that items from an earlier try are marked.
func TestKeptAnswersAreBounded(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) {
		c.Personality, _ = personality.Named("dell-idrac9")
		c.Personality.Quirks.Expand = false
	})
	conn := r.dial(t)
	want, err := conn.FirmwareInventory(t.Context())
	if err != nil || len(want) < 2 {
		t.Fatalf("%d items, %v", len(want), err)
	}
	var call atomic.Pointer[expiring]
	large := `{"Name":"x","Version":"1","Pad":"` + strings.Repeat("x", 1<<20-100) + `"}` // as large as an answer may be
	last := want[len(want)-1].ID
	cutOff := func(fault ...labbmc.Faults) error {
		call.Store(expireAfter(t.Context(), 0))
		r.SetFaults(append(fault, labbmc.Faults{Hang: true, Match: func(_, path string) bool { return path == last && call.Load().expires() }})...)
		defer r.SetFaults()
		_, err := conn.FirmwareInventory(call.Load())
		return err
	}
	earlier := func() (n int) {
		items, err := conn.FirmwareInventory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if item.FromEarlierRead {
				n++
			}
		}
		return n
	}
	if err := cutOff(); !errors.Is(err, bmc.ErrUnfinished) {
		t.Fatal(err)
	}
	if n := earlier(); n != len(want)-1 {
		t.Errorf("%d items are from an earlier try, want all but the last of %d", n, len(want))
	}
	isFirst := func(_, path string) bool { return path == want[0].ID }
	if err := cutOff(labbmc.Faults{Body: large, Match: isFirst}); !errors.Is(err, bmc.ErrUnfinished) {
		t.Fatal(err)
	}
	if n := earlier(); n != len(want)-2 {
		t.Errorf("%d items are from an earlier try, want one large one less", n)
	}
	if err := cutOff(); !errors.Is(err, bmc.ErrUnfinished) {
		t.Fatal(err)
	}
	redfish.Age(conn, 31*time.Minute)
	if n := earlier(); n != 0 {
		t.Errorf("%d items are from half an hour ago", n)
	}
}

// TestWriteDropsKeptAnswers checks that a call without any answer is a timeout, and that
// everything is read again after a write.
func TestWriteDropsKeptAnswers(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	var (
		call  atomic.Pointer[expiring]
		asked atomic.Int32
	)
	r.slow(&call, &asked)
	inventory := func(answers int32) error {
		call.Store(expireAfter(t.Context(), answers))
		_, err := conn.Inventory(call.Load())
		return err
	}
	if err := inventory(1); !errors.Is(err, bmc.ErrUnfinished) {
		t.Errorf("cut off after one answer: %v", err)
	}
	if err := inventory(0); !errors.Is(err, bmc.ErrTimeout) || errors.Is(err, bmc.ErrUnfinished) {
		t.Errorf("no answer more: %v, want a timeout", err)
	}
	const many = 1000
	call.Store(expireAfter(t.Context(), many))
	if err := conn.SetPower(t.Context(), bmc.ActionForceOff); err != nil {
		t.Fatal(err)
	}
	var times []int32
	for range 2 {
		asked.Store(0)
		if err := inventory(many); err != nil {
			t.Fatal(err)
		}
		times = append(times, asked.Load())
	}
	if times[0] != times[1] {
		t.Errorf("%d requests after a write, want all %d", times[0], times[1])
	}
}
