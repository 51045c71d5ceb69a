// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agentapi"
)

// unusedAddress returns an address without a listener.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func inspection() *agenttest.Manager {
	m := agenttest.NewManager()
	m.Order = agentapi.Order{Kind: agentapi.Inspect, ID: "o1"}
	return m
}

// If a replica does not answer, the agent uses the next of the list, or one from a search.
func TestAgentSwitchesToALiveReplica(t *testing.T) {
	for _, tc := range []struct {
		name string
		// listed: the command line names the live replica as well.
		listed bool
		// found returns the results of the searches. The last one repeats.
		found func(live string) []agentapi.BootOptions
		// searches is the expected number.
		searches int32
	}{
		{name: "from the list", listed: true, found: func(string) []agentapi.BootOptions { return nil }},
		{name: "by a search", searches: 1, found: func(live string) []agentapi.BootOptions {
			return []agentapi.BootOptions{{Server: live}}
		}},
		{name: "by the third search", searches: 3, found: func(live string) []agentapi.BootOptions {
			return []agentapi.BootOptions{{}, {Server: "no address"}, {Server: live}}
		}},
		{name: "a search does not change the pins", searches: 1, found: func(live string) []agentapi.BootOptions {
			return []agentapi.BootOptions{{Server: live, Pin: "sha256/" + strings.Repeat("B", 42) + "E"}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, s := inspection(), newServer(t, twoDisks...)
			live, dead := m.Start(t), unusedAddress(t)
			cfg := s.config(m, dead)
			if tc.listed {
				cfg.Servers = append(cfg.Servers, live)
			}
			var searches atomic.Int32
			cfg.Find = func(_ context.Context, avoid string) (agentapi.BootOptions, error) {
				answers, n := tc.found(live), int(searches.Add(1))
				if avoid != dead {
					t.Errorf("Find must avoid %s, want %s", avoid, dead)
				}
				if options := answers[min(n, len(answers))-1]; options.Server != "" {
					return options, nil
				}
				return agentapi.BootOptions{}, errors.New("no answer")
			}
			action, err := agent.Run(t.Context(), cfg)
			if action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v\n%s", action, err, strings.Join(s.lines, "\n"))
			}
			if got := searches.Load(); got != tc.searches {
				t.Errorf("%d searches, want %d\n%s", got, tc.searches, strings.Join(s.lines, "\n"))
			}
			s.noSecrets(m, err)
		})
	}
}

// A replica from a search must have a pinned key.
func TestUntrustedReplicaGetsNoCalls(t *testing.T) {
	m, untrusted, s := inspection(), inspection(), newServer(t, twoDisks...)
	cfg := s.config(m, unusedAddress(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at, searches := untrusted.Start(t), 0
	cfg.Find = func(context.Context, string) (agentapi.BootOptions, error) {
		if searches++; searches == 3 {
			cancel()
		}
		return agentapi.BootOptions{Server: at, Pin: untrusted.Pin()}, nil
	}
	if action, err := agent.Run(ctx, cfg); action != "" || err == nil {
		t.Errorf("%s, %v", action, err)
	}
	if calls := untrusted.Calls(); len(calls) > 0 {
		t.Errorf("an untrusted server got %v", calls)
	}
}

// The first token may have expired, so that of a search replaces it.
func TestSearchReplacesTheToken(t *testing.T) {
	m, s := inspection(), newServer(t, twoDisks...)
	cfg := s.config(m, unusedAddress(t))
	cfg.Token = "expired"
	live := m.Start(t)
	cfg.Find = func(context.Context, string) (agentapi.BootOptions, error) {
		return agentapi.BootOptions{Server: live, Token: m.Token}, nil
	}
	if action, err := agent.Run(t.Context(), cfg); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v\n%s", action, err, strings.Join(s.lines, "\n"))
	}
}

// If the boot server dies during the download, another one serves the rest.
func TestDownloadContinuesAtAnotherServer(t *testing.T) {
	m, images := installOrder(t)
	base, path, _ := strings.Cut(m.Order.Install.ImageURL, "/images/")
	m.Order.Install.ImageURL = "/images/" + path
	half := len(images.Content) / 2
	var down atomic.Bool
	dying := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", "5242880")
		_, _ = w.Write(images.Content[:half])
		panic(http.ErrAbortHandler)
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = dying.Serve(l) }()
	t.Cleanup(func() { _ = dying.Close() })
	s := newServer(t, twoDisks...)
	cfg := s.config(m, m.Start(t))
	cfg.Files = "http://" + l.Addr().String()
	cfg.Find = func(context.Context, string) (agentapi.BootOptions, error) {
		return agentapi.BootOptions{Server: cfg.Servers[0], Files: base}, nil
	}
	if action, err := agent.Run(t.Context(), cfg); action != agentapi.BootDisk || err != nil {
		t.Fatalf("%s, %v\n%s", action, err, strings.Join(s.lines, "\n"))
	}
	got := s.content(0)
	if !bytes.Equal(images.Content[mib:], got[mib:len(images.Content)]) {
		t.Error("the disk does not hold the image")
	}
	if ranges := images.Ranges(); len(ranges) == 0 || ranges[0] == "" {
		t.Errorf("the second server got the ranges %q, want only the rest", ranges)
	}
}
