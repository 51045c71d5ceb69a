// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/ttlset"
)

const (
	// denyAgainFor is how long a denied request for a live system's data is denied again without
	// a read of the host. Some installers ask once a second, forever.
	denyAgainFor = 5 * time.Second
	// reportAgainAfter is how long the same denial is not reported again. Orders of that age
	// have ended.
	reportAgainAfter = time.Hour
	// maxDenials bounds the denials that are remembered, of all hosts.
	maxDenials = 4096
)

// deniedCache remembers which requests for a live system's data were denied, and why. It is lost
// when the manager restarts.
type deniedCache struct {
	entries ttlset.Map[requester, denial]
}

func newDeniedCache() *deniedCache {
	return &deniedCache{entries: ttlset.Map[requester, denial]{Max: maxDenials}}
}

// requester is a client that asks for a live system's data, by the order of the signed URL.
type requester struct {
	order  string
	source netip.Addr
	secure bool
}

func requesterOf(r *http.Request, c caller) requester {
	return requester{order: c.claims.OrderID, source: c.source, secure: r.TLS != nil}
}

type denial struct {
	reason  string
	decided time.Time
}

// recent returns the reason of a denial within denyAgainFor, or "".
func (l *deniedCache) recent(r requester, now time.Time) string {
	if last, _, known := l.entries.Get(r, now); known && now.Before(last.decided.Add(denyAgainFor)) {
		return last.reason
	}
	return ""
}

// add remembers a denial, and reports whether an operator should hear of it.
func (l *deniedCache) add(r requester, reason string, now time.Time) bool {
	last, until, known := l.entries.Get(r, now)
	isNew, lifetime := true, reportAgainAfter
	if known && last.reason == reason {
		isNew, lifetime = false, until.Sub(now)
	}
	l.entries.Put(r, denial{reason: reason, decided: now}, now, lifetime)
	return isNew
}
