// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"sync"
	"time"
)

const (
	// secondChoice is how long a protocol other than the first probed one is remembered: a
	// restarting BMC often answers IPMI before its web server starts.
	secondChoice = 10 * time.Minute
	// maxFound bounds the remembered addresses; an evicted one costs a probe.
	maxFound = 20_000
)

// memory remembers the driver that was found at an address. The zero value is empty and ready.
type memory struct {
	mu sync.Mutex
	m  map[string]memoryEntry
}

type memoryEntry struct {
	driver string
	// expires is zero for an entry that stays until it is forgotten.
	expires time.Time
}

func (m *memory) get(address string, now time.Time) (driver string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.m[address]
	if ok && !f.expires.IsZero() && !now.Before(f.expires) {
		delete(m.m, address)
		return "", false
	}
	return f.driver, ok
}

// put remembers a driver; first means that no other protocol was probed before.
func (m *memory) put(address, driver string, first bool, now time.Time) {
	f := memoryEntry{driver: driver}
	if !first {
		f.expires = now.Add(secondChoice)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[string]memoryEntry{}
	}
	if _, known := m.m[address]; !known && len(m.m) >= maxFound {
		for other := range m.m {
			delete(m.m, other)
			break
		}
	}
	m.m[address] = f
}

func (m *memory) forget(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.m, address)
}
