// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// quarantine is how long an address that was declined is not given (see package
	// dhcp).
	quarantine = 10 * time.Minute
	// quiet is how long the same finding is not logged again.
	quiet = 10 * time.Minute
	// maxRemembered bounds each memory. Only known hosts get into one.
	maxRemembered = 1 << 16
)

// memory is all that the server remembers of what it heard: nothing that an answer
// needs in order to be right. The zero value is ready; it is safe for concurrent use.
type memory struct {
	mu       sync.Mutex
	declined map[netip.Addr]time.Time
	told     map[finding]time.Time
}

// finding is something that people are told once in a while.
type finding struct {
	stage pxe.Stage
	host  string
}

// rest keeps an address from being given for a while.
func (m *memory) rest(address netip.Addr, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.declined = remember(m.declined, address, now, now.Add(quarantine))
}

// rests says until when an address is not given; zero: it is.
func (m *memory) rests(address netip.Addr, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := m.declined[address]; now.Before(until) {
		return until
	}
	delete(m.declined, address)
	return time.Time{}
}

// isNew reports a finding that was not told of late.
func (m *memory) isNew(f finding, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.told[f]) {
		return false
	}
	m.told = remember(m.told, f, now, now.Add(quiet))
	return true
}

// remember adds to a bounded map, which forgets all that is over when it is full, and
// then takes nobody in.
func remember[K comparable](in map[K]time.Time, key K, now, until time.Time) map[K]time.Time {
	if in == nil {
		in = map[K]time.Time{}
	}
	if len(in) >= maxRemembered {
		for k, end := range in {
			if !now.Before(end) {
				delete(in, k)
			}
		}
	}
	if _, there := in[key]; there || len(in) < maxRemembered {
		in[key] = until
	}
	return in
}
