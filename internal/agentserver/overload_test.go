// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/token"
)

// busyAPI is an API server that answers no read before the context ends.
type busyAPI struct {
	client.Reader
	reads *atomic.Int32
}

func (b busyAPI) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	b.reads.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// busyServer returns a server whose live reads wait, and the number of these reads.
func (s *site) busyServer() (*Server, *atomic.Int32) {
	reads := &atomic.Int32{}
	return New(Options{Client: s.cached(), Live: busyAPI{s.client, reads}, Keys: s.keys, Recorder: s.events, Clock: s.clock, Log: logr.Discard()}), reads
}

// send makes one call without a network.
func send(ctx context.Context, s *site, server *Server, path, source string, claims token.Claims, in any) *answer {
	body, err := json.Marshal(in)
	if err != nil {
		s.t.Error(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(string(body)))
	if err != nil {
		s.t.Error(err)
	}
	r.RemoteAddr = source + ":1"
	r.Header.Set(agentapi.TokenHeader, "Bearer "+s.keys.Mint(claims))
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	got := &answer{header: http.Header{}}
	server.Handler().ServeHTTP(got, r)
	return got
}

func validClaims(s *site) token.Claims {
	claims := claimsOf(token.Install)
	claims.Expiry = s.clock.Now().Add(token.Lifetime)
	return claims
}

// An overloaded server refuses sessions early and without an API call. Reports have slots of their own.
func TestOverloadRefusesSessionsButNoReports(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	synctest.Test(t, func(t *testing.T) {
		server, reads := s.busyServer()
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan *answer, 100)
		for i := range 50 {
			go func() {
				answers <- send(ctx, s, server, agentapi.PathSession, fmt.Sprintf("192.0.2.%d", i+1), validClaims(s), agentapi.SessionRequest{})
			}()
		}
		synctest.Wait()
		working := reads.Load()
		if working == 0 || working > 16 {
			t.Errorf("%d sessions at once, want at most 16", working)
		}
		go send(ctx, s, server, agentapi.PathReport, "192.0.2.99", validClaims(s), agentapi.Report{OrderID: orderID, Outcome: agentapi.Failed})
		synctest.Wait()
		if got := reads.Load(); got != working+1 {
			t.Error("a report waits for the sessions")
		}
		time.Sleep(8 * time.Second)
		if got := len(answers); got != 50-int(working) {
			t.Errorf("%d sessions are refused after 8 s, want %d", got, 50-working)
		}
		for range len(answers) {
			if got := <-answers; got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "5" {
				t.Errorf("status %d, Retry-After %q, want 503 and 5", got.status, got.header.Get("Retry-After"))
			}
		}
		if got := reads.Load(); got != working+1 {
			t.Errorf("the refused sessions cost %d reads", got-working-1)
		}
		// The others get an answer before an agent gives up.
		time.Sleep(20 * time.Second)
		if got := len(answers); got != int(working) {
			t.Errorf("%d of %d sessions are answered within 28 s", got, working)
		}
		cancel()
		synctest.Wait()
	})
}

// The agent of a host must not count as silent while the server refuses its calls.
func TestOverloadRecordsContact(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	contact := func() (at time.Time) {
		if operation := s.host().Status.Operation; operation != nil {
			at = operation.LastContactTime.Time
		}
		return at
	}
	start := s.clock.Now()
	claims := validClaims(s)
	for _, step := range []struct {
		name   string
		after  time.Duration
		source string
		want   time.Time
	}{
		{"an address that is not the host's", 0, "192.0.2.7", time.Time{}},
		{"the first call", 0, here, start},
		{"a call soon after", 10 * time.Second, here, start},
		{"a later call", 40 * time.Second, here, start.Add(40 * time.Second)},
		{"a token that has expired", token.Lifetime + time.Second, here, start.Add(40 * time.Second)},
	} {
		s.clock.SetTime(start.Add(step.after))
		synctest.Test(t, func(t *testing.T) {
			server, _ := s.busyServer()
			if before := contact(); !before.IsZero() { // as if this server had written it
				server.overload.recorded.Add(orderID, before, contactInterval)
			}
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 50 {
				go send(ctx, s, server, agentapi.PathSession, fmt.Sprintf("198.51.100.%d", i+1), claims, agentapi.SessionRequest{})
			}
			synctest.Wait()
			if got := send(ctx, s, server, agentapi.PathSession, step.source, claims, agentapi.SessionRequest{}); got.status != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d, want 503", step.name, got.status)
			}
			cancel()
			synctest.Wait()
		})
		if got := contact(); !got.Equal(step.want) {
			t.Errorf("%s: contact at %s, want %s", step.name, got, step.want)
		}
	}
	if operation := s.host().Status.Operation; operation.Step != string(agentapi.StepStarted) {
		t.Errorf("step %q", operation.Step)
	}
}

// Nothing is read for a client that has gone.
func TestNoWorkForAClientThatHasGone(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a slot is free, so that chance decides whether the slot or the end is seen first
		server, reads := s.busyServer()
		send(ctx, s, server, agentapi.PathSession, here, validClaims(s), agentapi.SessionRequest{})
		if reads.Load() != 0 {
			t.Fatal("the server reads the host")
		}
	}
}
