// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

func TestRefusals(t *testing.T) {
	l := newDeniedCache()
	start := time.Unix(1000, 0)
	one := requester{order: "o1", source: netip.MustParseAddr("10.0.0.7")}
	secure := one
	secure.secure = true
	for i, step := range []struct {
		who    requester
		why    string
		after  time.Duration
		lately string // before it is judged
		news   bool
	}{
		{one, "too late", 0, "", true},
		{one, "too late", 0, "too late", false},
		{one, "too late", time.Second, "too late", false},
		{secure, "too late", time.Second, "", true}, // in clear it was refused, over TLS it may not be
		{one, "too late", denyAgainFor + time.Second, "", false},
		{one, "given once", 2*denyAgainFor + time.Second, "", true},
		{one, "given once", reportAgainAfter, "", false},
		{one, "given once", 2*reportAgainAfter + time.Minute, "", true},
	} {
		now := start.Add(step.after)
		if got := l.recent(step.who, now); got != step.lately {
			t.Errorf("step %d: refused lately %q, want %q", i, got, step.lately)
		}
		if got := l.add(step.who, step.why, now); got != step.news {
			t.Errorf("step %d: news %t", i, got)
		}
	}
	for i := range maxDenials + 10 {
		l.add(requester{order: fmt.Sprint(i)}, "too late", start.Add(2*reportAgainAfter+time.Minute))
	}
	if l.entries.Len() != maxDenials {
		t.Errorf("%d are remembered", l.entries.Len())
	}
}

// An installer that asks forever costs no read of the API server and no event each time.
func TestLiveSystemAsksForEver(t *testing.T) {
	s := newSite(t, append(world(lives), recorded(here))...)
	data := word(t, s.loaded(s.agent(claimsOf(token.Install), here)), "data=")
	count := func() (n int) {
		s.eventWith("") // reads what came meanwhile
		for _, event := range s.seen {
			if strings.Contains(event, infrav1.ReasonLiveDataRejected) {
				n++
			}
		}
		return n
	}
	for range 20 {
		if code, _ := s.get(data, "127.0.0.9"); code != http.StatusGone {
			t.Fatalf("answered %d: an installer may take it for something that passes", code)
		}
		s.clock.Step(time.Second)
	}
	if n := count(); n != 1 {
		t.Errorf("told %d times", n)
	}
}
