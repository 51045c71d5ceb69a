// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// eventConn is a session of an eventBMC.
type eventConn struct {
	bmc.Unsupported
	f       *eventBMC
	streams []*testStream
}

// eventBMC is a BMC with event streams.
type eventBMC struct {
	mu sync.Mutex
	// refuse is the error of OpenEvents; nil: it opens a stream.
	refuse  error
	opened  []time.Time
	streams []*testStream
	closed  int
	target  bmc.Target
}

// testStream is a stream that a test sends events on.
type testStream struct {
	events chan bmc.Event
	end    chan struct{}
	once   sync.Once
}

func (s *testStream) Next() (bmc.Event, error) {
	select {
	case e := <-s.events:
		return e, nil
	case <-s.end:
		return bmc.Event{}, fmt.Errorf("%w: ended", bmc.ErrUnreachable)
	}
}

func (s *testStream) Close() error {
	s.once.Do(func() { close(s.end) })
	return nil
}

func (f *eventBMC) dial(_ context.Context, target bmc.Target) (bmc.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	return &eventConn{f: f}, nil
}

func (t *eventConn) OpenEvents(context.Context) (bmc.EventStream, error) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.opened = append(t.f.opened, time.Now())
	if t.f.refuse != nil {
		return nil, t.f.refuse
	}
	s := &testStream{events: make(chan bmc.Event), end: make(chan struct{})}
	t.f.streams, t.streams = append(t.f.streams, s), append(t.streams, s)
	return s, nil
}

func (t *eventConn) PowerState(context.Context) (bmc.PowerState, error) { return bmc.PowerOn, nil }
func (t *eventConn) SetPower(context.Context, bmc.PowerAction) error    { return nil }
func (t *eventConn) BootOverride(context.Context) (bmc.BootOverride, error) {
	return bmc.BootOverride{}, nil
}
func (t *eventConn) SetBootOverride(context.Context, bmc.BootOverride) error { return nil }
func (t *eventConn) Identity(context.Context) (bmc.Identity, error)          { return bmc.Identity{}, nil }
func (t *eventConn) Inventory(context.Context) (bmc.Inventory, error)        { return bmc.Inventory{}, nil }

// Close ends the streams of the session, as a driver does.
func (t *eventConn) Close(context.Context) error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.closed++
	for _, s := range t.streams {
		_ = s.Close()
	}
	return nil
}

// last returns the newest stream.
func (f *eventBMC) last() *testStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[len(f.streams)-1]
}

func (f *eventBMC) openings() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.opened)
}

// news collects the notifications of Watches.
type news struct {
	mu    sync.Mutex
	notes []string
}

func (n *news) notify(key string, kind bmc.WatchEventKind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, key+" "+string(kind))
}

func (n *news) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.notes
	n.notes = nil
	return out
}

func wantNews(t *testing.T, n *news, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, n.take()); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
}

// TestWatchLifecycle shows that a stream is opened once, keeps the session, notifies, is
// opened again after it ended, and ends with Drop.
func TestWatchLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := &eventBMC{}, &news{}
		pool := bmc.NewPool(f.dial, bmc.PoolOptions{IdleTimeout: time.Minute})
		w := bmc.NewWatches(pool, bmc.WatchOptions{Notify: n.notify})
		for range 3 {
			w.Want("h", target("a"))
		}
		wantNews(t, n, "h Begun")
		if !w.Watched("h") || w.Watched("other") {
			t.Error("watched is wrong")
		}
		time.Sleep(time.Hour) // far beyond the idle time
		synctest.Wait()
		if f.closed != 0 {
			t.Error("the session of a live stream was closed")
		}
		f.last().events <- bmc.Event{MessageID: "x"}
		wantNews(t, n, "h Happened")

		_ = f.last().Close() // the BMC restarts
		wantNews(t, n, "h Ended")
		if w.Watched("h") {
			t.Error("watched without a stream")
		}
		time.Sleep(bmc.DefaultWatchFirst)
		wantNews(t, n, "h Begun")
		if got := w.Counts(); got != (bmc.WatchCounts{Live: 1, Events: 1, Ended: 1}) {
			t.Errorf("counts %+v", got)
		}
		other := target("a")
		other.Password = "another"
		w.Want("h", other)      // rotated credentials
		time.Sleep(time.Second) // the rate limit may delay it
		wantNews(t, n, "h Begun")
		w.Drop("h")
		w.Drop("h")
		wantNews(t, n)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if w.Watched("h") || f.closed != 2 || len(f.openings()) != 3 {
			t.Errorf("after the drop: watched %v, %d sessions closed, %d streams opened", w.Watched("h"), f.closed, len(f.openings()))
		}
		w.Close()
		w.Want("h", target("a")) // does nothing after Close
		must(t, pool.Close(t.Context()))
		wantNews(t, n)
	})
}

// TestWatchLimitsNotifications shows that a BMC with endless events notifies at most once a
// minute, and that the last event is not lost.
func TestWatchLimitsNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := &eventBMC{}, &news{}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		w := bmc.NewWatches(pool, bmc.WatchOptions{Notify: n.notify})
		w.Want("h", target("a"))
		wantNews(t, n, "h Begun")
		for range 590 { // ten minutes
			f.last().events <- bmc.Event{}
			time.Sleep(time.Second)
		}
		if got := len(n.take()); got < 11 || got > 13 {
			t.Errorf("%d notifications in ten minutes, want 3 and one per minute", got)
		}
		time.Sleep(2 * time.Minute)
		wantNews(t, n, "h Happened") // the pending one
		w.Close()
	})
}

// TestWatchBacksOff shows that refused streams are retried with growing pauses, and BMCs
// without streams once a day.
func TestWatchBacksOff(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse    error
		least, up int
	}{
		"busy":        {&bmc.BusyError{}, 6, 16},
		"unreachable": {bmc.ErrUnreachable, 6, 16},
		// An address to correct, or a BMC that has not found its system yet.
		"no system": {bmc.ErrAddress, 5, 14},
		"has none":  {bmc.ErrNotSupported, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, n := &eventBMC{refuse: tc.refuse}, &news{}
				pool := newPool(t, f.dial, bmc.PoolOptions{})
				w := bmc.NewWatches(pool, bmc.WatchOptions{Notify: n.notify})
				for range 60 { // an hour of polls, which succeed
					w.Want("h", target("a"))
					must(t, pool.Do(t.Context(), target("a"), readState))
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				if got := len(f.openings()); got < tc.least || got > tc.up {
					t.Errorf("asked %d times in an hour, want %d to %d", got, tc.least, tc.up)
				}
				if c := pool.CallStatus("a"); c.Failures != 0 {
					t.Errorf("a BMC without a free stream counts as failing: %+v", c)
				}
				if errors.Is(tc.refuse, bmc.ErrNotSupported) {
					if got := w.Counts(); got.Unsupported != 1 {
						t.Errorf("counts %+v", got)
					}
					time.Sleep(24 * time.Hour)
					w.Want("h", target("a"))
					synctest.Wait()
					if len(f.openings()) != 2 {
						t.Error("not tried again after a day")
					}
				}
				w.Close()
			})
		})
	}
}

// TestWatchLimitsReopening shows that 5,000 streams that end together are opened again at
// the configured rate.
func TestWatchLimitsReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 5000
		f, n := &eventBMC{}, &news{}
		pool := newPool(t, f.dial, bmc.PoolOptions{})
		w := bmc.NewWatches(pool, bmc.WatchOptions{Notify: n.notify})
		for i := range hosts {
			w.Want(fmt.Sprint(i), target(fmt.Sprint(i)))
		}
		time.Sleep(hosts / bmc.DefaultWatchRate * time.Second)
		synctest.Wait()
		if got := w.Counts(); got.Live != hosts {
			t.Fatalf("%+v after the time for all", got)
		}
		f.mu.Lock()
		streams := slices.Clone(f.streams)
		f.mu.Unlock()
		for _, s := range streams {
			_ = s.Close()
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if got := w.Counts(); got.Live != hosts {
			t.Errorf("%+v after the network came back", got)
		}
		second := map[int64]int{}
		for _, at := range f.openings() {
			second[at.Unix()]++
			if second[at.Unix()] > bmc.DefaultWatchRate+1 {
				t.Fatalf("more than %d streams opened in one second", bmc.DefaultWatchRate)
			}
		}
		w.Close()
	})
}

// TestForgetEndsAStream shows that neither a deleted host nor a pool without idle sessions
// keeps a session for its stream.
func TestForgetEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &eventBMC{}
		pool := newPool(t, f.dial, bmc.PoolOptions{IdleTimeout: -1})
		var stream bmc.EventStream
		open := func(ctx context.Context, c bmc.Conn) (err error) {
			stream, err = c.OpenEvents(ctx)
			return err
		}
		must(t, pool.Do(t.Context(), target("a"), open))
		must(t, pool.Do(t.Context(), target("a"), readState))
		if f.closed != 0 {
			t.Error("the session was closed under its stream")
		}
		pool.Forget("a")
		synctest.Wait()
		if _, err := stream.Next(); err == nil || f.closed != 1 {
			t.Errorf("forgotten: error %v, %d sessions closed", err, f.closed)
		}
		must(t, stream.Close())
		must(t, pool.Do(t.Context(), target("a"), open))
		must(t, stream.Close())
		must(t, stream.Close()) // does nothing
		synctest.Wait()
		must(t, pool.Do(t.Context(), target("a"), readState))
		if f.closed != 3 {
			t.Errorf("%d sessions closed, want 3", f.closed)
		}
	})
}

// TestMarkEarlier shows that only sessions of the same owner and another process match.
func TestMarkEarlier(t *testing.T) {
	m := bmc.SessionLabel{Owner: "us", Process: "2"}
	for shown, want := range map[string]bool{
		"ingot/us/1": true, "ingot/us/2": false, "ingot/us/": false, "ingot/other/1": false, "ingot/us2/1": false,
		"": false, "us/1": false, "person": false,
	} {
		if m.IsEarlierProcess(shown) != want {
			t.Errorf("Earlier(%q) is %v", shown, !want)
		}
	}
	if (bmc.SessionLabel{Process: "2"}).IsEarlierProcess("ingot//1") || (bmc.SessionLabel{Process: "2"}).String() != "" {
		t.Error("a label without an owner")
	}
}

// TestVitalsFallBack shows that a driver without Vitals is asked for the power state as part
// of the same call.
func TestVitalsFallBack(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := newPool(t, f.dial, bmc.PoolOptions{})
	ask := func() (v bmc.PollState, err error) {
		err = pool.Do(t.Context(), target("a"), func(ctx context.Context, c bmc.Conn) (err error) {
			v, err = c.PollState(ctx)
			return err
		})
		return v, err
	}
	v, err := ask()
	must(t, err)
	if v != (bmc.PollState{Power: bmc.PowerOn, Health: bmc.HealthUnknown}) {
		t.Errorf("vitals %+v", v)
	}
	f.callErr = func(_ *fakeConn, name string) error {
		if name == "state" {
			return bmc.ErrTimeout
		}
		return nil
	}
	for range 2 {
		_, _ = ask()
	}
	if c := pool.CallStatus("a"); c.Failures != 2 {
		t.Errorf("%d failures counted, want 2", c.Failures)
	}
}
