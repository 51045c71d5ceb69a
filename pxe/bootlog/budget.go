// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import "time"

// Anybody on the segment can send packets with a host's hardware address, and each boot
// that is handed over costs a write. So a host has a budget.
const (
	// burst is how many boots of a host are handed over at once, after which one is
	// each refill.
	burst  = 4
	refill = time.Minute
)

// budget is what a host had left at some time.
type budget struct {
	left int
	at   time.Time
}

// now is what is left by now.
func (b budget) now(now time.Time) budget {
	n := int(max(now.Sub(b.at), 0) / refill)
	if b.left+n >= burst {
		return budget{burst, now}
	}
	return budget{b.left + n, b.at.Add(time.Duration(n) * refill)}
}

// spend says whether a boot may be handed over. One in which nothing but DHCP was seen
// may only while the budget is whole: what costs nothing to forge leaves room for boots
// that went further.
func (t *Tracker) spend(b *boot) bool {
	now := t.o.Now()
	has, known := t.recent[b.Host]
	if !known && len(t.recent) >= maxBoots {
		return false
	}
	if !known {
		has = budget{burst, now}
	}
	has = has.now(now)
	if has.left == 0 || has.left < burst && b.isBare() {
		return false
	}
	has.left--
	t.recent[b.Host] = has
	return true
}

// isBare says that nothing was fetched in a boot: packets of DHCP were all.
func (b *boot) isBare() bool {
	for _, m := range b.Marks {
		if m.Stage != DHCP && m.Stage != Agent {
			return false
		}
	}
	return true
}

// forget lets the hosts go whose budget is whole again.
func (t *Tracker) forget(now time.Time) {
	for host, b := range t.recent {
		if b.now(now).left == burst {
			delete(t.recent, host)
		}
	}
}
