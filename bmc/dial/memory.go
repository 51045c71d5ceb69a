// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"sync"
	"time"
)

const (
	// secondChoice is how long a protocol counts that was not the first one asked
	// for: a BMC that restarts often answers IPMI before its web server does.
	secondChoice = 10 * time.Minute
	// maxFound bounds the memory, in addresses; one too many costs a probe.
	maxFound = 20_000
)

// memory is which driver was found at an address. The zero value is empty and ready.
type memory struct {
	mu sync.Mutex
	m  map[string]finding
}

type finding struct {
	driver string
	// until it counts; zero: until it is forgotten.
	until time.Time
}

func (m *memory) get(address string, now time.Time) (driver string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.m[address]
	if ok && !f.until.IsZero() && !now.Before(f.until) {
		delete(m.m, address)
		return "", false
	}
	return f.driver, ok
}

// put remembers a finding; first: no protocol was asked for before it.
func (m *memory) put(address, driver string, first bool, now time.Time) {
	f := finding{driver: driver}
	if !first {
		f.until = now.Add(secondChoice)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[string]finding{}
	}
	if _, known := m.m[address]; !known && len(m.m) >= maxFound {
		for other := range m.m { // any
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
