// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// refusedAgain is for how long a refused fetch is refused again without a look at the
	// ledger: there are installers that ask once a second and for ever.
	refusedAgain = 5 * time.Second
	// refusedTold is for how long the same refusal is not told again; it bounds the memory
	// too, as orders of that age have ended.
	refusedTold = time.Hour
	// maxRefusals bounds what is remembered of all hosts.
	maxRefusals = 4096
)

// refusals remembers who was refused a live system's data, and why. It may be lost. The
// zero value is ready.
type refusals struct {
	mu     sync.Mutex
	recent map[asker]refused
}

// asker is who asked, by which way. The order is that of the address, which is signed.
type asker struct {
	order  string
	source netip.Addr
	secure bool
}

func askerOf(r *http.Request, c caller) asker {
	return asker{order: c.claims.OrderID, source: c.source, secure: r.TLS != nil}
}

// refused is why, when that was judged last, and since when it is told.
type refused struct {
	why          string
	judged, told time.Time
}

// lately is why the asker was refused a moment ago; empty: it was not.
func (l *refusals) lately(who asker, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, known := l.recent[who]; known && now.Before(was.judged.Add(refusedAgain)) {
		return was.why
	}
	return ""
}

// keep remembers a refusal, and says whether that is news for people.
func (l *refusals) keep(who asker, why string, now time.Time) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.recent, func(_ asker, was refused) bool { return !now.Before(was.told.Add(refusedTold)) })
	was, known := l.recent[who]
	if known && was.why == why {
		l.recent[who] = refused{why: why, judged: now, told: was.told}
		return false
	}
	if l.recent == nil {
		l.recent = map[asker]refused{}
	}
	if known || len(l.recent) < maxRefusals {
		l.recent[who] = refused{why: why, judged: now, told: now}
	}
	return true
}
