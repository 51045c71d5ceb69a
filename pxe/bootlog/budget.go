// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"time"

	"golang.org/x/time/rate"
)

// Anybody on the segment can send packets with a host's hardware address, and each boot
// that is handed over costs a write. So a host has a budget: burst boots at once, and then
// one each refill.
const (
	burst  = 4
	refill = time.Minute
)

// spend reports whether a boot may be handed over. A boot of which only DHCP was seen may
// only while the budget is whole: what costs nothing to forge leaves room for boots that
// went further.
func (t *Tracker) spend(b *boot) bool {
	now := t.o.Now()
	budget, _, known := t.recent.Get(b.Host, now)
	if !known {
		budget = rate.NewLimiter(rate.Every(refill), burst)
	}
	if budget.TokensAt(now) < burst && b.isBare() || !budget.AllowN(now, 1) {
		return false
	}
	return t.recent.Put(b.Host, budget, now, burst*refill) // then the budget is whole again
}

// isBare reports whether only packets of DHCP were seen in a boot.
func (b *boot) isBare() bool {
	for _, m := range b.Marks {
		if m.Stage != DHCP && m.Stage != Agent {
			return false
		}
	}
	return true
}
