// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestWritesAreNotRedirected checks that a write, which may have a password, is not sent to
// another path or host.
func TestWritesAreNotRedirected(t *testing.T) {
	for name, to := range map[string]string{
		"another path": "/redfish/v1/elsewhere/", "another host": "http://192.0.2.1/redfish/v1/SessionService/Sessions/",
		"a query": "/redfish/v1/SessionService/Sessions/?x=y", "nowhere": "",
	} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, `{"@odata.id":"/redfish/v1/","RedfishVersion":"1.6.0","SessionService":{"@odata.id":"/redfish/v1/SessionService"}}`)
					return
				}
				posts.Add(1)
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusPermanentRedirect)
			}))
			defer server.Close()
			_, err := redfish.Dial(t.Context(), bmc.Target{Address: "redfish+" + server.URL, Username: "admin", Password: bmctest.CanaryWord})
			clean(t, err)
			if !errors.Is(err, bmc.ErrProtocol) || posts.Load() != 1 {
				t.Errorf("%v after %d requests", err, posts.Load())
			}
		})
	}
}

// TestRedirectedRoot checks that the body of a redirect is not read as the service root.
func TestRedirectedRoot(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/redfish/v1/":
			http.Redirect(w, r, "/redfish/v1", http.StatusPermanentRedirect) // with an HTML page
		case r.URL.Path == "/redfish/v1":
			_, _ = io.WriteString(w, `{"@odata.id":"/redfish/v1/","RedfishVersion":"1.6.0","Links":{"Sessions":{"@odata.id":"/here"}}}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			if r.URL.Path != "/here" {
				t.Errorf("the login goes to %s", r.URL.Path)
			}
		}
	}))
	defer server.Close()
	_, err := redfish.Dial(t.Context(), bmc.Target{Address: "redfish+" + server.URL, Username: "admin", Password: bmctest.CanaryWord})
	if clean(t, err); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("%v: the root was not read", err)
	}
}

// clean fails the test if an error shows the password in any form.
func clean(t *testing.T, err error) {
	t.Helper()
	if shows(err) {
		t.Errorf("the password shows: %v; %#v", err, err)
	}
}

func shows(err error) bool {
	return slices.ContainsFunc([]string{"%v", "%+v", "%#v"}, func(format string) bool {
		return strings.Contains(strings.ToLower(fmt.Sprintf(format, err)), bmctest.CanaryWord)
	})
}

func TestErrorClasses(t *testing.T) {
	state := func(ctx context.Context, c bmc.Conn) error { _, err := c.PowerState(ctx); return err }
	off := func(ctx context.Context, c bmc.Conn) error { return c.SetPower(ctx, bmc.ActionForceOff) }
	isPost := func(method, _ string) bool { return method == http.MethodPost }
	for _, tc := range []struct {
		name   string
		faults labbmc.Faults
		call   func(context.Context, bmc.Conn) error
		want   error
		// stillOn: the write must not reach the machine.
		stillOn bool
	}{
		{"read: 401", labbmc.Faults{Status: 401}, state, bmc.ErrUnauthorized, true},
		{"read: 403", labbmc.Faults{Status: 403}, state, bmc.ErrUnauthorized, true},
		{"read: 503", labbmc.Faults{Status: 503}, state, bmc.ErrBusy, true},
		{"read: 429", labbmc.Faults{Status: 429}, state, bmc.ErrRateLimited, true},
		{"read: 500", labbmc.Faults{Status: 500}, state, bmc.ErrBusy, true},
		{"read: 502", labbmc.Faults{Status: 502}, state, bmc.ErrBusy, true},
		{"read: hang", labbmc.Faults{Hang: true}, state, bmc.ErrTimeout, true},
		{"read: slow", labbmc.Faults{Latency: longWait}, state, bmc.ErrTimeout, true},
		{"read: no JSON", labbmc.Faults{Body: "<html>hello</html>"}, state, bmc.ErrProtocol, true},
		{"read: other JSON", labbmc.Faults{Body: `[1,2]`}, state, bmc.ErrProtocol, true},
		{"read: empty object", labbmc.Faults{Body: `{}`}, state, bmc.ErrProtocol, true},
		{"read: endless", labbmc.Faults{Flood: true}, state, bmc.ErrProtocol, true},
		{"read: session forgotten", labbmc.Faults{ForgetSessions: true}, state, bmc.ErrUnauthorized, true},
		{"write: lost reply", labbmc.Faults{LoseReply: true, Match: isPost}, off, bmc.ErrUnknownOutcome, false},
		{"write: hang", labbmc.Faults{Hang: true, Match: isPost}, off, bmc.ErrUnknownOutcome, true},
		{"write: 401", labbmc.Faults{Status: 401, Match: isPost}, off, bmc.ErrUnauthorized, true},
		{"write: 503", labbmc.Faults{Status: 503, Match: isPost}, off, bmc.ErrBusy, true},
		{"write: 409", labbmc.Faults{Status: 409, Match: isPost}, off, bmc.ErrBusy, true},
		{"write: 400", labbmc.Faults{Status: 400, Match: isPost}, off, bmc.ErrNotSupported, true},
		{"write: 500", labbmc.Faults{Status: 500, Match: isPost}, off, bmc.ErrUnknownOutcome, true},
		{"write: read before it hangs", labbmc.Faults{Hang: true}, off, bmc.ErrTimeout, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			if err := r.bench.Power(t.Context(), labbmc.On); err != nil {
				t.Fatal(err)
			}
			r.SetFaults(tc.faults)
			ctx, cancel := context.WithTimeout(t.Context(), longWait)
			if tc.faults.Hang || tc.faults.Latency > 0 {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), shortWait)
			}
			defer cancel()
			err := tc.call(ctx, conn)
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if got := bmc.OutcomeOf(err); got != bmc.OutcomeOf(tc.want) {
				t.Errorf("outcome %s, want %s", got, bmc.OutcomeOf(tc.want))
			}
			clean(t, err)
			if r.bench.Powered() != tc.stillOn {
				t.Errorf("machine powered: %v, want %v", r.bench.Powered(), tc.stillOn)
			}
		})
	}
	t.Run("password repeated by the BMC", func(t *testing.T) {
		r := newRig(t, nil)
		r.target.Password += "-wrong" // the emulator repeats user and password
		_, err := redfish.Dial(t.Context(), r.target)
		if !errors.Is(err, bmc.ErrUnauthorized) || !strings.Contains(err.Error(), "access was denied") {
			t.Errorf("error %v", err)
		}
		clean(t, err)
	})
}

// TestRepeatedPassword checks that a refusal that repeats the password is masked, in any encoding,
// in JSON and in other text, also where the text is cut.
func TestRepeatedPassword(t *testing.T) {
	for name, written := range bmctest.CanaryEncodings() {
		t.Run(name, func(t *testing.T) {
			message, err := json.Marshal("you sent " + written)
			if err != nil {
				t.Fatal(err)
			}
			long, err := json.Marshal(strings.Repeat("x", 290) + written)
			if err != nil {
				t.Fatal(err)
			}
			for body, says := range map[string]string{
				`{"error":{"code":"X","message":` + string(message) + `}}`: "you sent ***",
				`{"error":{"code":"X","message":` + string(long) + `}}`:    "xxx***",
				"you sent " + written: "",
			} {
				_, err := redfish.Dial(t.Context(), refusing(t, "/redfish/v1/SessionService/Sessions", body))
				if !errors.Is(err, bmc.ErrUnauthorized) || !strings.Contains(err.Error(), says) {
					t.Errorf("error %v, want %q in it", err, says)
				}
				clean(t, err)
			}
			_, err = redfish.Dial(t.Context(), refusing(t, "no path: "+written, ""))
			if !errors.Is(err, bmc.ErrProtocol) || !strings.Contains(err.Error(), "no path: ***") {
				t.Errorf("error %v, want what is no path in it", err)
			}
			clean(t, err)
		})
	}
}

// refusing starts a BMC that refuses every login with a body. sessions is where logins go.
func refusing(t *testing.T, sessions, body string) bmc.Target {
	t.Helper()
	root, err := json.Marshal(map[string]any{"@odata.id": "/redfish/v1/", "Links": map[string]any{"Sessions": map[string]string{"@odata.id": sessions}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, body)
			return
		}
		_, _ = w.Write(root)
	}))
	t.Cleanup(s.Close)
	return bmc.Target{
		Address:  strings.Replace(s.URL, "https", "redfish", 1),
		Username: username, Password: canary, InsecureSkipVerify: true,
	}
}

func TestRetryAfter(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	r.SetFaults(labbmc.Faults{Status: 503, RetryAfter: 90 * time.Second})
	_, err := conn.PowerState(t.Context())
	var busy *bmc.BusyError
	if !errors.As(err, &busy) || busy.RetryAfter != 90*time.Second {
		t.Errorf("error %v, want a BusyError of 90 s", err)
	}
}

func TestSessionsFull(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) { c.MaxSessions = 1 })
	_ = r.dial(t)
	if _, err := redfish.Dial(t.Context(), r.target); !errors.Is(err, bmc.ErrBusy) {
		t.Errorf("error %v, want ErrBusy", err)
	}
}

func TestCallerGivesUp(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	r.SetFaults(labbmc.Faults{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(shortWait, cancel)
	_, err := conn.PowerState(ctx)
	if !errors.Is(err, context.Canceled) || bmc.OutcomeOf(err) != bmc.OutcomeCanceled {
		t.Errorf("error %v, want only context.Canceled", err)
	}
}

func TestTrust(t *testing.T) {
	other, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*bmc.Target)
		config func(*labbmc.Config)
		want   error
	}{
		{"its authority", func(*bmc.Target) {}, nil, nil},
		{"the system's roots", func(t *bmc.Target) { t.CABundle = nil }, nil, bmc.ErrCertificate},
		{"another authority", func(t *bmc.Target) { t.CABundle = other.PEM() }, nil, bmc.ErrCertificate},
		{"no PEM", func(t *bmc.Target) { t.CABundle = []byte("nonsense") }, nil, bmc.ErrCertificate},
		{"another name", func(t *bmc.Target) { t.Address = strings.Replace(t.Address, "127.0.0.1", "127.0.0.2", 1) }, listenAny, bmc.ErrCertificate},
		{"opted out", func(t *bmc.Target) { t.CABundle, t.InsecureSkipVerify = nil, true }, nil, nil},
		{"TLS 1.1", func(*bmc.Target) {}, func(c *labbmc.Config) { c.MaxTLS = tls.VersionTLS11 }, bmc.ErrProtocol},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.config)
			tc.change(&r.target)
			conn, err := redfish.Dial(t.Context(), r.target)
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			clean(t, err)
			if conn != nil {
				if err := conn.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if len(r.Writes()) > 0 && tc.want != nil {
				t.Error("the password was sent to a BMC that is not trusted")
			}
		})
	}
}

// listenAny makes the BMC reachable as 127.0.0.2, which its certificate does not name.
func listenAny(c *labbmc.Config) {
	l, err := net.Listen("tcp", "127.0.0.2:0") // loopback
	if err != nil {
		panic(err)
	}
	c.Listener = l
}

func TestUnreachable(t *testing.T) {
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	plain := listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	})
	closed := listen(t, nil)
	for _, tc := range []struct {
		name, address string
		want          error
	}{
		{"closed port", "redfish://" + closed, bmc.ErrUnreachable},
		{"no handshake", "redfish://" + silent, bmc.ErrUnreachable},
		{"no TLS", "redfish://" + plain, bmc.ErrProtocol},
		{"no such name", "redfish://bmc.invalid", bmc.ErrUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := redfish.Dial(ctx, bmc.Target{Address: tc.address, Username: username, Password: canary, InsecureSkipVerify: true})
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			clean(t, err)
		})
	}
}

// listen serves connections until the test ends. With a nil handler, the port is closed.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // loopback
	if err != nil {
		t.Fatal(err)
	}
	if handle == nil {
		_ = l.Close()
		return l.Addr().String()
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { handle(c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{
		"", "192.0.2.1", "https://192.0.2.1", "redfish://", "redfish://" + "user:canary@192.0.2.1", "redfish://192.0.2.1?x=1",
		"redfish://192.0.2.1#x", "redfish://192.0.2.1/redfish/v1/Systems/1/Bios",
		"redfish://192.0.2.1/redfish/v1/Systems/..", "redfish://192.0.2.1/other", "redfish://[::1", "redfish://192.0.2.1:canary",
	} {
		_, err := redfish.Dial(t.Context(), bmc.Target{Address: address, Username: username, Password: canary})
		if !errors.Is(err, bmc.ErrAddress) {
			t.Errorf("address %q: error %v, want ErrAddress", address, err)
		}
		clean(t, err)
	}
}

// A BMC that notices the end of a call may end its half-sent answer in good order, before the connection
// is closed. The answer is late, not invalid.
func TestAnswerCutOffByTheDeadlineIsATimeout(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	redfish.CloseSlowly(conn, shortWait)
	r.SetFaults(labbmc.Faults{Trickle: 5 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	_, err := conn.PowerState(ctx)
	if !errors.Is(err, bmc.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, bmc.ErrTimeout)
	}
	r.SetFaults()
}
