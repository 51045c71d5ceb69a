// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Max bounds the members of a set. What a boot server remembers is of hosts that
	// it knows, so it is for inventories that are larger than any.
	Max = 1 << 16
	// sweepEvery bounds how often a full set looks for members that are to leave: it
	// looks at all of them.
	sweepEvery = time.Second
)

// Set is a set whose members leave by themselves. The zero value is ready; it is safe
// for concurrent use.
type Set[K comparable] struct {
	// size lets those who find it empty pass without the lock.
	size  atomic.Int64
	mu    sync.Mutex
	until map[K]time.Time
	swept time.Time // when the last were put out
}

// Add puts a member in and reports whether it was not there. A full set takes
// nobody in, and reports the same.
func (s *Set[K]) Add(key K, now time.Time, lifetime time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, there := s.until[key]; there && now.Before(until) {
		return false
	}
	if len(s.until) >= Max && now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		for k, until := range s.until {
			if !now.Before(until) {
				delete(s.until, k)
			}
		}
	}
	if s.until == nil {
		s.until = map[K]time.Time{}
	}
	if len(s.until) < Max {
		s.until[key] = now.Add(lifetime)
	}
	s.size.Store(int64(len(s.until)))
	return true
}

// Has reports a member and when it leaves.
func (s *Set[K]) Has(key K, now time.Time) (time.Time, bool) {
	if s.size.Load() == 0 {
		return time.Time{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until, there := s.until[key]
	if there && !now.Before(until) {
		delete(s.until, key)
		s.size.Store(int64(len(s.until)))
		there = false
	}
	return until, there
}

// Remove takes a member out.
func (s *Set[K]) Remove(key K) {
	if s.size.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, key)
	s.size.Store(int64(len(s.until)))
}

// Len is how many members are kept, those among them whose time is over and who were
// not looked for since. It takes no lock.
func (s *Set[K]) Len() int { return int(s.size.Load()) }
