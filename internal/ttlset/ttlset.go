// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ttlset holds sets and maps whose entries expire. Their size is bounded, whatever
// is put in. Callers pass the time, so that tests need no clock.
//
//	var declined ttlset.Set[netip.Addr]
//	declined.Add(address, now, 10*time.Minute)
package ttlset

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMax bounds the entries of a Map without a bound of its own. It is larger than
	// any inventory.
	DefaultMax = 1 << 16
	// sweepEvery bounds how often a full Map looks at all entries for expired ones.
	sweepEvery = time.Second
)

// Map is a map whose entries expire. The zero value is ready. It is safe for concurrent use.
type Map[K comparable, V any] struct {
	// Max bounds the entries; 0 means DefaultMax. Set it before the first use.
	Max int

	// size lets readers of an empty Map pass without the lock.
	size    atomic.Int64
	mu      sync.Mutex
	entries map[K]entry[V]
	swept   time.Time
}

type entry[V any] struct {
	value V
	until time.Time
}

// Put stores a value, also in place of one that has not expired. It reports false if the Map
// is full.
func (m *Map[K, V]) Put(key K, value V, now time.Time, lifetime time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(key, value, now, lifetime)
}

// Add stores a value unless the key has one that has not expired, and reports whether the key
// was absent. A full Map reports true, and stores nothing.
func (m *Map[K, V]) Add(key K, value V, now time.Time, lifetime time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && now.Before(e.until) {
		return false
	}
	m.put(key, value, now, lifetime)
	return true
}

func (m *Map[K, V]) put(key K, value V, now time.Time, lifetime time.Duration) bool {
	limit := m.Max
	if limit <= 0 {
		limit = DefaultMax
	}
	if _, ok := m.entries[key]; !ok && len(m.entries) >= limit {
		m.sweep(now)
		if len(m.entries) >= limit {
			return false
		}
	}
	if m.entries == nil {
		m.entries = map[K]entry[V]{}
	}
	m.entries[key] = entry[V]{value, now.Add(lifetime)}
	m.size.Store(int64(len(m.entries)))
	return true
}

// sweep removes expired entries, at most once in sweepEvery.
func (m *Map[K, V]) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for key, e := range m.entries {
		if !now.Before(e.until) {
			delete(m.entries, key)
		}
	}
	m.size.Store(int64(len(m.entries)))
}

// Get returns the value of a key and when it expires. It reports false if the key has none
// that has not expired.
func (m *Map[K, V]) Get(key K, now time.Time) (value V, until time.Time, ok bool) {
	if m.size.Load() == 0 {
		return value, until, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if ok && !now.Before(e.until) {
		m.remove(key)
		return value, until, false
	}
	return e.value, e.until, ok
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	if m.size.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

func (m *Map[K, V]) remove(key K) {
	delete(m.entries, key)
	m.size.Store(int64(len(m.entries)))
}

// Len returns how many entries are kept. Expired ones count until a Get or a Put of a full
// Map removes them. It takes no lock.
func (m *Map[K, V]) Len() int { return int(m.size.Load()) }

// Set is a set whose members expire. The zero value is ready. It is safe for concurrent use.
type Set[K comparable] struct{ entries Map[K, struct{}] }

// Add adds a member, and reports whether it was absent. A full Set reports true, and adds
// nothing.
func (s *Set[K]) Add(key K, now time.Time, lifetime time.Duration) bool {
	return s.entries.Add(key, struct{}{}, now, lifetime)
}

// Has reports a member and when it expires.
func (s *Set[K]) Has(key K, now time.Time) (until time.Time, ok bool) {
	_, until, ok = s.entries.Get(key, now)
	return until, ok
}

// Delete removes a member.
func (s *Set[K]) Delete(key K) { s.entries.Delete(key) }

// Len returns how many members are kept, as Map.Len.
func (s *Set[K]) Len() int { return s.entries.Len() }
