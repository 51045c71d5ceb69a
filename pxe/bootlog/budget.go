// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// A host may deliver burst boots at once and then one per refill. Each delivery costs a
// write, and any machine on the segment can send packets with a host's MAC address.
const (
	burst  = 4
	refill = time.Minute
)

// mayDeliver reports whether a boot may be delivered. A boot with DHCP packets only needs the full
// budget, because such packets are easy to forge: real boots keep their share.
func (t *Tracker) mayDeliver(b *boot) bool {
	now := t.o.Now()
	budget, _, known := t.recent.Get(b.Host, now)
	if !known {
		budget = rate.NewLimiter(rate.Every(refill), burst)
	}
	if budget.TokensAt(now) < burst && b.isBare() || !budget.AllowN(now, 1) {
		return false
	}
	return t.recent.Put(b.Host, budget, now, burst*refill) // the budget is full again by then
}

// isBare reports whether a boot consists of DHCP packets only.
func (b *boot) isBare() bool {
	return !slices.ContainsFunc(b.Marks, func(m Mark) bool { return m.Stage != DHCP && m.Stage != Agent })
}
