// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/token"
)

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func (untouched) Close() error { return nil }

// answer records the handler's answer, without a network.
type answer struct {
	header    http.Header
	status    int
	deadlines []time.Time
	strings.Builder
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.Builder.Write(b) }
func (a *answer) SetReadDeadline(at time.Time) error {
	a.deadlines = append(a.deadlines, at)
	return nil
}

// The body of a request without a valid token for the call is not read.
func TestNoBodyWithoutToken(t *testing.T) {
	s := newSite(t, world()...)
	server := New(Options{Client: s.client, Live: s.client, Keys: s.keys, Recorder: s.events, Clock: s.clock})
	minted := func(purpose token.Purpose, valid time.Duration) string {
		claims := claimsOf(purpose)
		claims.Expiry = s.clock.Now().Add(valid)
		return "Bearer " + s.keys.Mint(claims)
	}
	for _, path := range []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathProgress, agentapi.PathBootstrap, agentapi.PathReport, agentapi.PathBooted, agentapi.PathLive} {
		texts := map[string]string{"none": "", "another's": "Bearer v1/x/y", "no token": "Basic YTpi",
			"a live system's": minted(token.Live, time.Hour), "an expired unknown client's": minted(token.Discover, -time.Second),
			"an unknown client's without a key": minted(token.Discover, time.Hour),
			"an installed system's":             minted(token.Booted, time.Hour)}
		if path == agentapi.PathBooted {
			texts["an installed system's"] = minted(token.Booted, -time.Second)
			texts["an agent's"] = minted(token.Install, time.Hour)
		}
		for name, text := range texts {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, untouched{t})
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(agentapi.TokenHeader, text)
			if name == "an expired unknown client's" { // with a key, so that its age is what counts
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
			}
			got := &answer{header: http.Header{}}
			server.Handler().ServeHTTP(got, r)
			if got.status != http.StatusUnauthorized {
				t.Errorf("%s with %s: status %d", path, name, got.status)
			}
		}
	}
}

// slow is a body that does not arrive in time.
type slow struct{}

func (slow) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
func (slow) Close() error             { return nil }

// A body has its own timeout, shorter than slotTimeout. A client that is too slow must retry.
func TestBodiesHaveATime(t *testing.T) {
	s := newSite(t, world()...)
	server := New(Options{Client: s.client, Live: s.client, Keys: s.keys, Recorder: s.events, Clock: s.clock})
	claims := claimsOf(token.Install)
	claims.Expiry = s.clock.Now().Add(time.Hour)
	call := func(body io.ReadCloser) *answer {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, agentapi.PathSession, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(agentapi.TokenHeader, "Bearer "+s.keys.Mint(claims))
		got := &answer{header: http.Header{}}
		server.Handler().ServeHTTP(got, r)
		return got
	}
	began := time.Now()
	got := call(slow{})
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("status %d (%s)", got.status, got)
	}
	if len(got.deadlines) != 1 || got.deadlines[0].Before(began) || got.deadlines[0].After(time.Now().Add(slotTimeout-1)) {
		t.Errorf("deadlines %v, of a request that came at %s", got.deadlines, began)
	}
	got = call(io.NopCloser(strings.NewReader("{}")))
	if len(got.deadlines) != 2 || got.deadlines[1].Before(began.Add(slotTimeout)) {
		t.Errorf("deadlines %v: the work on a body that came is hurried as the body was", got.deadlines)
	}
}

// The size and the number of values of a body are bounded.
func TestBodiesAreBounded(t *testing.T) {
	s := newSite(t, world()...)
	a, booted := s.agent(claimsOf(token.Install), here), s.agent(claimsOf(token.Booted), here)
	large := `{"bootID":"` + strings.Repeat("x", maxSmallBytes) + `"}`
	many := `{"hardware":{"disks":[1` + strings.Repeat(",1", maxValues+1) + `]}}`
	for name, tc := range map[string]struct {
		path, body string
		want       int
	}{
		"order":                {agentapi.PathOrder, large, http.StatusRequestEntityTooLarge},
		"progress":             {agentapi.PathProgress, large, http.StatusRequestEntityTooLarge},
		"bootstrap":            {agentapi.PathBootstrap, large, http.StatusRequestEntityTooLarge},
		"booted":               {agentapi.PathBooted, large, http.StatusRequestEntityTooLarge},
		"a session of facts":   {agentapi.PathSession, many, http.StatusRequestEntityTooLarge},
		"a large session":      {agentapi.PathSession, large, http.StatusForbidden}, // read, and another server's
		"a report of the same": {agentapi.PathReport, large, http.StatusBadRequest}, // read, and of no order
	} {
		by := a
		if tc.path == agentapi.PathBooted {
			by = booted
		}
		if status, text := by.post(tc.path, []byte(tc.body)); status != tc.want {
			t.Errorf("%s: status %d (%s), want %d", name, status, text, tc.want)
		}
	}
}

// One connection carries one request at a time.
func TestOnlyHTTP1(t *testing.T) {
	s := newSite(t, world()...)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the protocol is %q", got)
	}
}
