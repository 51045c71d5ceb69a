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
	// refusedAgain is for how long a refused request for a live system's data is refused
	// again without reading the host: some installers ask once a second, forever.
	refusedAgain = 5 * time.Second
	// refusedTold is for how long the same refusal is not reported again. Orders of that age
	// have ended.
	refusedTold = time.Hour
	// maxRefusals bounds the refusals that are remembered, of all hosts.
	maxRefusals = 4096
)

// refusals remembers which requests for a live system's data were refused, and why. It may
// be lost.
type refusals struct {
	recent ttlset.Map[asker, refused]
}

func newRefusals() *refusals { return &refusals{recent: ttlset.Map[asker, refused]{Max: maxRefusals}} }

// asker is who asked, and by which connection. The order is that of the signed address.
type asker struct {
	order  string
	source netip.Addr
	secure bool
}

func askerOf(r *http.Request, c caller) asker {
	return asker{order: c.claims.OrderID, source: c.source, secure: r.TLS != nil}
}

// refused is the reason of a refusal, and when it was last decided.
type refused struct {
	why    string
	judged time.Time
}

// lately returns why the asker was refused a moment ago, or "".
func (l *refusals) lately(who asker, now time.Time) string {
	if was, _, known := l.recent.Get(who, now); known && now.Before(was.judged.Add(refusedAgain)) {
		return was.why
	}
	return ""
}

// keep remembers a refusal, and reports whether it is new to an operator.
func (l *refusals) keep(who asker, why string, now time.Time) bool {
	was, until, known := l.recent.Get(who, now)
	news, lifetime := true, refusedTold
	if known && was.why == why {
		news, lifetime = false, until.Sub(now)
	}
	l.recent.Put(who, refused{why: why, judged: now}, now, lifetime)
	return news
}
