// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// eachPersonality runs a test on each personality.
func eachPersonality(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	for _, p := range labbmc.Personalities() {
		t.Run(p.Name, func(t *testing.T) { test(t, newNamed(t, p.Name, nil)) })
	}
}

// newNamed is newPersonality by the emulator's name.
func newNamed(t *testing.T, name string, change func(*labbmc.Config)) *rig {
	t.Helper()
	for p, emulator := range emulated {
		if emulator == name {
			return newPersonality(t, p, change)
		}
	}
	t.Fatalf("no personality %q in the matrix", name)
	return nil
}

// TestPollIsOneRequest checks that a poll is one read and no write for each personality (the
// budget is one request per minute and host).
func TestPollIsOneRequest(t *testing.T) {
	eachPersonality(t, func(t *testing.T, r *rig) {
		pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
		defer closePool(t, pool)
		var vitals bmc.PollState
		poll := func() {
			t.Helper()
			if err := pool.Do(t.Context(), r.target, func(ctx context.Context, c bmc.Conn) (err error) {
				vitals, err = c.PollState(ctx)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		poll() // opens the session
		reads, writes := r.Reads(), len(r.Writes())
		for range 5 {
			poll()
		}
		if n, w := r.Reads()-reads, len(r.Writes())-writes; n != 5 || w != 0 {
			t.Errorf("5 polls made %d reads and %d writes, want 5 and 0", n, w)
		}
		for _, health := range []bmc.HealthState{bmc.HealthCritical, bmc.HealthWarning, bmc.HealthOK} {
			r.SetHealth("PSU 2", string(health))
			poll()
			if diff := cmp.Diff(bmc.PollState{Power: bmc.PowerOff, Health: health}, vitals); diff != "" {
				t.Errorf("vitals (-want +got):\n%s", diff)
			}
		}
	})
}

func closePool(t *testing.T, pool *bmc.Pool) {
	t.Helper()
	if err := pool.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestEvents checks that each personality streams power and health events or reports
// ErrNotSupported, without an additional session.
func TestEvents(t *testing.T) {
	eachPersonality(t, func(t *testing.T, r *rig) {
		conn := r.dial(t)
		stream, err := conn.OpenEvents(t.Context())
		if !r.persona.SSE {
			if !errors.Is(err, bmc.ErrNotSupported) {
				t.Fatalf("error %v, want ErrNotSupported", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Sessions(); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
		must(t, conn.SetPower(t.Context(), bmc.ActionOn)) // while the stream is open
		if e := next(t, stream); e.MessageID != r.persona.PowerEvents[0] || e.Origin != r.SystemPath() {
			t.Errorf("event %+v, want %s", e, r.persona.PowerEvents[0])
		}
		r.SetHealth("Fan 1", "Critical")
		if e := next(t, stream); e.Severity != bmc.HealthCritical {
			t.Errorf("event %+v, want a critical one", e)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := stream.Next()
			ended <- err
		}()
		must(t, conn.Close(t.Context())) // closing the session ends the stream
		if err := <-ended; err == nil {
			t.Error("the stream outlives its session")
		}
		must(t, stream.Close())
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, stream bmc.EventStream) bmc.Event {
	t.Helper()
	stop := time.AfterFunc(longWait, func() { _ = stream.Close() })
	defer stop.Stop()
	e, err := stream.Next()
	must(t, err)
	return e
}

// TestWatches checks that switching a server by hand is reported through the stream, also after
// the BMC restarted.
func TestWatches(t *testing.T) {
	r := newNamed(t, "hpe-ilo6", nil)
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	news := make(chan bmc.WatchEventKind, 100)
	watches := bmc.NewWatches(pool, bmc.WatchOptions{
		First: time.Millisecond, Max: 100 * time.Millisecond, Rate: 1000,
		Notify: func(_ string, kind bmc.WatchEventKind) { news <- kind },
	})
	want := func(what string, kind bmc.WatchEventKind) {
		t.Helper()
		deadline := time.After(longWait)
		for {
			select {
			case got := <-news:
				if got == kind {
					return
				}
			case <-deadline:
				t.Fatalf("no news %s of %s", kind, what)
			}
		}
	}
	watches.Want("h", r.target)
	want("the stream", bmc.WatchStarted)
	must(t, r.bench.Power(t.Context(), labbmc.On))
	want("the power", bmc.WatchChanged)
	reads := r.Reads()
	must(t, pool.Do(t.Context(), r.target, readState))
	if n := r.Reads() - reads; n != 1 || r.PeakSessions() != 1 {
		t.Errorf("a poll during the stream made %d requests, with %d sessions, want 1 and 1", n, r.PeakSessions())
	}
	r.Reboot(shortWait)
	want("the restart", bmc.WatchEnded)
	want("the stream", bmc.WatchStarted)
	r.SetHealth("PSU 1", "Critical")
	want("the health", bmc.WatchChanged)
	watches.Close()
	closePool(t, pool)
}

// TestEventsRefused checks the errors for answers that are not a stream.
func TestEventsRefused(t *testing.T) {
	onStream := func(_, path string) bool { return strings.HasSuffix(path, "/SSE") }
	for name, tc := range map[string]struct {
		faults labbmc.Faults
		want   error
	}{
		"no more streams":           {labbmc.Faults{Match: onStream, Status: 503, RetryAfter: time.Second}, bmc.ErrBusy},
		"not for this user":         {labbmc.Faults{Match: onStream, Status: 403}, bmc.ErrNotSupported},
		"not there":                 {labbmc.Faults{Match: onStream, Status: 404}, bmc.ErrNotSupported},
		"the session is forgotten":  {labbmc.Faults{Match: onStream, Status: 401}, bmc.ErrUnauthorized},
		"an answer of another kind": {labbmc.Faults{Match: onStream, Body: "{}"}, bmc.ErrNotSupported},
		"no answer":                 {labbmc.Faults{Match: onStream, Hang: true}, context.DeadlineExceeded},
		"a broken connection":       {labbmc.Faults{Match: onStream, Drop: true}, bmc.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNamed(t, "standard", nil)
			conn := r.dial(t)
			r.SetFaults(tc.faults)
			ctx, cancel := context.WithTimeout(t.Context(), shortWait)
			defer cancel()
			_, err := conn.OpenEvents(ctx)
			if !errors.Is(err, tc.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			r.SetFaults()
			if _, err := conn.PowerState(t.Context()); err != nil {
				t.Errorf("the connection is of no use after it: %v", err)
			}
		})
	}
}

// TestSSEReader checks the parser.
func TestSSEReader(t *testing.T) {
	event := func(id string) string { return `{"Events":[{"MessageId":"` + id + `","MessageSeverity":"OK"}]}` }
	big := `data: {"x":"` + strings.Repeat("A", 2<<20) + "\"}\n\n"
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"line feeds":           {"id: 1\ndata: " + event("a") + "\n\ndata: " + event("b") + "\n\n", []string{"a", "b"}},
		"returns":              {"data:" + event("a") + "\r\rdata:" + event("b") + "\r\r", []string{"a", "b"}},
		"both":                 {"data: " + event("a") + "\r\n\r\ndata: " + event("b") + "\r\n\r\n", []string{"a", "b"}},
		"several lines":        {"data: {\"Events\":\ndata: [{\"MessageId\":\"a\"}]}\n\n", []string{"a"}},
		"comments":             {": stream\n\n:\n\n: x\ndata: " + event("a") + "\n\n", []string{"a"}},
		"cut off":              {"data: " + event("a") + "\n\ndata: " + event("b") + "\n", []string{"a"}},
		"other fields":         {"database: x\nevent: y\nretry: 5\n\ndata: " + event("a") + "\n\n", []string{"a"}},
		"no Event":             {"data: {\"MetricValues\":[1]}\n\ndata: nonsense\n\ndata\n\n", nil},
		"too large is skipped": {big + "data: " + event("a") + "\n\n", []string{"a"}},
		"of others":            {"data: {\"Events\":[{\"MessageId\":\"s\",\"OriginOfCondition\":{\"@odata.id\":\"/redfish/v1/SessionService/Sessions/1\"}},{\"MessageId\":\"t\",\"OriginOfCondition\":\"/redfish/v1/Systems/1\"}]}\n\n", []string{"t"}},
		"wrong types":          {"data: {\"Events\":[{\"MessageId\":\"a\",\"OriginOfCondition\":7,\"Severity\":{}}]}\n\n", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			stream := redfish.NewEventStream(io.NopCloser(strings.NewReader(tc.in)))
			var got []string
			for {
				e, err := stream.Next()
				if err != nil {
					break
				}
				got = append(got, e.MessageID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// flood is an endless stream.
type flood struct {
	text []byte
	sent int
}

func (f *flood) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = f.text[f.sent%len(f.text)]
		f.sent++
	}
	return len(p), nil
}

func (*flood) Close() error { return nil }

// TestFloodingStreamEnds checks that an endless stream costs bounded memory and is closed.
func TestFloodingStreamEnds(t *testing.T) {
	for name, text := range map[string]string{
		"one line": "data: A", "lines": "data: A\n", "comments": ":\n\n", "metrics": "data: {\"MetricValues\":[]}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := &flood{text: []byte(text)}
			stream := redfish.NewEventStream(f)
			for {
				if _, err := stream.Next(); err != nil {
					if !errors.Is(err, bmc.ErrProtocol) {
						t.Errorf("error %v, want ErrProtocol", err)
					}
					return
				}
			}
		})
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("id: 1\ndata: {\"Events\":[{\"MessageId\":\"a\",\"OriginOfCondition\":{\"@odata.id\":\"/redfish/v1/Systems/1\"}}]}\n\n"))
	f.Add([]byte(":\r\n\r\ndata\rdata:\r\r"))
	f.Add([]byte("data: {\"Events\":[{\"MessageId\":{},\"OriginOfCondition\":\"\"}]}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		stream := redfish.NewEventStream(io.NopCloser(bufio.NewReader(bytes.NewReader(data))))
		for range len(data) + 1 {
			e, err := stream.Next()
			if err != nil {
				return
			}
			if len(e.MessageID) > 300 || len(e.Origin) > 300 {
				t.Fatalf("an event of %d and %d bytes", len(e.MessageID), len(e.Origin))
			}
		}
		t.Fatal("more events than bytes")
	})
}

// TestSweepSessions checks that the sessions of a killed process are ended by the next process if
// the BMC stores labels, and that no other session is.
func TestSweepSessions(t *testing.T) {
	life := func(owner, life string) bmc.PoolOptions {
		return bmc.PoolOptions{SessionLabel: bmc.SessionLabel{Owner: owner, Process: life}}
	}
	poll := func(t *testing.T, r *rig, o bmc.PoolOptions) *bmc.Pool {
		t.Helper()
		pool := bmc.NewPool(redfish.Dial, o)
		must(t, pool.Do(t.Context(), r.target, readState))
		return pool
	}
	for name, tc := range map[string]struct {
		persona string
		// left is the number of sessions after three killed processes and one that sweeps,
		// including one of another user and one of another installation.
		left int
	}{
		"stores labels": {"openbmc", 3},
		"stores none":   {"dell-idrac9", 6},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNamed(t, tc.persona, nil)
			unrelated := poll(t, r, bmc.PoolOptions{})
			other := poll(t, r, life("other", "1"))
			var killed []*bmc.Pool
			for i := range 3 {
				killed = append(killed, poll(t, r, life("us", fmt.Sprint(i))))
			}
			last := poll(t, r, life("us", "last"))
			if n := r.Sessions(); n != tc.left {
				t.Errorf("%d sessions, want %d", n, tc.left)
			}
			opened := r.OpenedSessions()
			must(t, unrelated.Do(t.Context(), r.target, readState))
			must(t, other.Do(t.Context(), r.target, readState))
			if r.OpenedSessions() != opened {
				t.Error("a session of another user or installation was ended")
			}
			// Two processes that overlap, as during a change of leaders, do not end each other's sessions again and again.
			must(t, killed[2].Do(t.Context(), r.target, readState))
			must(t, last.Do(t.Context(), r.target, readState))
			before := r.OpenedSessions()
			must(t, killed[2].Do(t.Context(), r.target, readState))
			must(t, last.Do(t.Context(), r.target, readState))
			if r.OpenedSessions() != before {
				t.Error("two lives end each other's sessions in turn")
			}
			for _, pool := range append(killed, unrelated, other, last) {
				closePool(t, pool)
			}
		})
	}
	t.Run("BMC that does not know Context", func(t *testing.T) {
		r := newNamed(t, "openbmc", func(c *labbmc.Config) { c.Personality.SessionContext = false })
		pool := poll(t, r, life("us", "1"))
		closePool(t, pool)
	})
}

// TestRateLimited checks that 429 differs from other busy answers.
func TestRateLimited(t *testing.T) {
	for status, limited := range map[int]bool{http.StatusTooManyRequests: true, http.StatusServiceUnavailable: false} {
		r := newRig(t, nil)
		conn := r.dial(t)
		r.SetFaults(labbmc.Faults{Status: status, RetryAfter: 7 * time.Second})
		_, err := conn.PollState(t.Context())
		if !errors.Is(err, bmc.ErrBusy) || errors.Is(err, bmc.ErrRateLimited) != limited || bmc.RetryAfter(err) != 7*time.Second {
			t.Errorf("%d: %v, want ErrBusy, rate limited %v, and 7 s", status, err, limited)
		}
		r.SetFaults()
	}
}
