// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
)

const shortWait = 50 * time.Millisecond

// fake is a bmclib driver that does what a test needs.
type fake struct {
	set    func(ctx context.Context) (bool, error)
	closed atomic.Int32
}

func (f *fake) Open(context.Context) error  { return nil }
func (f *fake) Close(context.Context) error { f.closed.Add(1); return nil }
func (f *fake) PowerStateGet(ctx context.Context) (string, error) {
	ok, err := f.set(ctx)
	return fmt.Sprint(ok), err
}
func (f *fake) PowerSet(ctx context.Context, _ string) (bool, error) { return f.set(ctx) }

// newFakes returns a driver of newFakes and a function that lists the opened ones.
func newFakes(set func(ctx context.Context) (bool, error)) (driverSpec, func() []*fake) {
	var (
		mu   sync.Mutex
		made []*fake
	)
	m := driverSpec{name: nameRPC, conn: newRPC, library: func(*link, endpoint) library {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, &fake{set: set})
		return made[len(made)-1]
	}}
	return m, func() []*fake {
		mu.Lock()
		defer mu.Unlock()
		return made
	}
}

func dialFake(t *testing.T, d driverSpec) bmc.Conn {
	t.Helper()
	conn, err := d.dial(t.Context(), bmc.Target{Address: "vendor+rpc://192.0.2.1", Password: bmctest.Canary})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSleepingLibraryIsAbandoned checks that a call that ignores its context returns by its
// deadline, that it ends its session later, and that the next call has a new session.
func TestSleepingLibraryIsAbandoned(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(ctx context.Context, c bmc.Conn) error
		want error
	}{
		{"write", func(ctx context.Context, c bmc.Conn) error { return c.SetPower(ctx, bmc.ActionForceOff) }, bmc.ErrUnknownOutcome},
		{"read", func(ctx context.Context, c bmc.Conn) error { _, err := c.PowerState(ctx); return err }, bmc.ErrTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wake, slept := make(chan struct{}), make(chan struct{})
			var calls atomic.Int32
			m, made := newFakes(func(context.Context) (bool, error) {
				if calls.Add(1) == 1 {
					close(slept)
					<-wake
				}
				return true, nil
			})
			conn := dialFake(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), shortWait)
			defer cancel()
			err := tc.call(ctx, conn)
			<-slept
			if !errors.Is(err, tc.want) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if n := made()[0].closed.Load(); n != 0 {
				t.Errorf("closed %d times under a call", n)
			}
			if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
				t.Errorf("the next call: %v", err)
			}
			if n := len(made()); n != 2 {
				t.Errorf("%d connections, want a second one", n)
			}
			close(wake)
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
			for i, f := range made() {
				for f.closed.Load() == 0 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond) // it ends later
				}
				if n := f.closed.Load(); n != 1 {
					t.Errorf("connection %d closed %d times", i, n)
				}
			}
		})
	}
}

// TestCloseWaits checks that Close waits for the session of an abandoned call, but not forever.
func TestCloseWaits(t *testing.T) {
	wake := make(chan struct{})
	m, made := newFakes(func(context.Context) (bool, error) { <-wake; return true, nil })
	conn := dialFake(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	if err := conn.SetPower(ctx, bmc.ActionOn); !errors.Is(err, bmc.ErrUnknownOutcome) {
		t.Errorf("error %v, want ErrUnknownOutcome", err)
	}
	short, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	if err := conn.Close(short); err == nil {
		t.Error("closed while the library still works")
	}
	close(wake)
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := made()[0].closed.Load(); n != 1 {
		t.Errorf("closed %d times", n)
	}
}

// TestPanic checks that a panic of bmclib, which truncated answers cause, becomes an error.
func TestPanic(t *testing.T) {
	m, _ := newFakes(func(context.Context) (bool, error) { var none []string; return none[0] == "", nil })
	conn := dialFake(t, m)
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.SetPower(t.Context(), bmc.ActionOn); !errors.Is(err, bmc.ErrProtocol) {
		t.Errorf("error %v, want ErrProtocol", err)
	}
}

// TestBrokenChallenge checks a Digest challenge without a value.
func TestBrokenChallenge(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Digest realm")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	amt := driverSpecs()[slices.IndexFunc(driverSpecs(), func(d driverSpec) bool { return d.name == nameAMT })]
	_, err := amt.dial(t.Context(), bmc.Target{Address: "vendor+intelamt://" + s.Listener.Addr().String(), InsecureSkipVerify: true, Password: bmctest.Canary})
	if !errors.Is(err, bmc.ErrProtocol) {
		t.Errorf("error %v, want ErrProtocol", err)
	}
}

// TestSoftOff checks that a shutdown succeeds although bmclib's Redfish returns false.
func TestSoftOff(t *testing.T) {
	m, _ := newFakes(func(context.Context) (bool, error) { return false, nil })
	conn := dialFake(t, m)
	if err := conn.SetPower(t.Context(), bmc.ActionGracefulOff); err != nil {
		t.Errorf("SetPower: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLibrarySeesFarDeadline checks that bmclib sees a far deadline and its call still ends by the
// deadline of the caller.
func TestLibrarySeesFarDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	long := withoutDeadline(ctx)
	if until, ok := long.Deadline(); !ok || time.Until(until) < time.Hour {
		t.Errorf("deadline %v, %v", until, ok)
	}
	<-long.Done()
	if !errors.Is(long.Err(), context.DeadlineExceeded) {
		t.Errorf("error %v", long.Err())
	}
}

// TestOneInFlight checks that requests are sent one after the other although gofish sends three at
// once.
func TestOneInFlight(t *testing.T) {
	var now, most atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Millisecond) // long enough for another request
		now.Add(-1)
	}))
	defer s.Close()
	w := newWire(bmc.Target{}, endpoint{scheme: "http", host: strings.TrimPrefix(s.URL, "http://")}, nil)
	defer w.close()
	w.begin(t.Context())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			resp, err := w.client().Get(s.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d requests at once", most.Load())
	}
}

// TestWire checks the limits of wire.
func TestWire(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxBody+1)) }, errTooLarge},
		{"another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		}, nil},
		{"redirect loop", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(tc.answer)
			defer s.Close()
			w := newWire(bmc.Target{}, endpoint{scheme: "http", host: strings.TrimPrefix(s.URL, "http://")}, nil)
			defer w.close()
			if _, err := w.client().Get(s.URL); !errors.Is(err, errCallEnded) {
				t.Errorf("outside a call: %v", err)
			}
			w.begin(t.Context())
			resp, err := w.client().Get(s.URL + "/")
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if err == nil && resp.StatusCode != http.StatusTemporaryRedirect {
				t.Errorf("status %d: it was followed", resp.StatusCode)
			}
		})
	}
	w := newWire(bmc.Target{}, endpoint{scheme: "http", host: "192.0.2.1:80"}, nil)
	w.begin(t.Context())
	w.left = 0
	if _, err := w.client().Get("http://192.0.2.1:80/"); !errors.Is(err, bmc.ErrProtocol) {
		t.Errorf("beyond the budget: %v", err)
	}
}

// TestCleanedText checks that no form of the password is left and no text is long.
func TestCleanedText(t *testing.T) {
	l := &link{target: bmc.Target{Password: bmctest.Canary}}
	for name, text := range bmctest.CanaryEncodings() {
		if diff := cmp.Diff("before *** after", l.clean("before "+text+" after")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := l.clean(strings.Repeat("ä", 1000)); len(got) > maxText+3 {
		t.Errorf("%d bytes", len(got))
	}
	if diff := cmp.Diff("a b c", l.clean("a\r\nb\x1bc")); diff != "" {
		t.Error(diff)
	}
}

func TestAddress(t *testing.T) {
	for _, tc := range []struct {
		driver, address, host, scheme string
	}{
		{nameDell, "vendor+dell://192.0.2.7", "192.0.2.7:443", "https"},
		{nameDell, "vendor+dell://bmc.example:8443/", "bmc.example:8443", "https"},
		{nameDell, "vendor+dell://[2001:db8::7]", "[2001:db8::7]:443", "https"},
		{nameAMT, "vendor+intelamt://192.0.2.7", "192.0.2.7:16993", "https"},
		{nameAMT, "vendor+intelamt://192.0.2.7:16992", "192.0.2.7:16992", "http"},
		{nameRPC, "vendor+rpc://192.0.2.7:16992", "192.0.2.7:16992", "https"},
		{nameDell, "vendor+rpc://192.0.2.7", "", ""},
		{nameDell, "redfish://192.0.2.7", "", ""},
		{nameDell, "vendor+dell://user:" + "hunter2" + "@192.0.2.7", "", ""},
		{nameDell, "vendor+dell://192.0.2.7/redfish/v1/Systems/1", "", ""},
		{nameDell, "vendor+dell://", "", ""},
		{nameDell, "vendor+dell://192.0.2.7?x", "", ""},
		{nameDell, "vendor+dell://%zz", "", ""},
	} {
		t.Run(tc.address, func(t *testing.T) {
			ep, err := parseAddress(tc.driver, tc.address)
			if (err == nil) != (tc.host != "") || ep.host != tc.host || ep.scheme != tc.scheme {
				t.Errorf("%+v, %v", ep, err)
			}
			if err != nil && (!errors.Is(err, bmc.ErrAddress) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("error %v", err)
			}
		})
	}
}
