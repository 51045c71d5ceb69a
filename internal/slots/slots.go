// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slots limits concurrent work, in total and per key, so that no key can take all slots.
package slots

import (
	"context"
	"slices"
	"sync"
)

// Limiter hands out slots in order of arrival, past callers whose keys have no slot left. It is
// safe for concurrent use.
type Limiter[K comparable] struct {
	// Total is the number of slots, PerKey how many of them one key may use at a time.
	Total, PerKey int

	mu      sync.Mutex
	inUse   int
	byKey   map[K]int
	waiting []*waiter[K]
}

type waiter[K comparable] struct {
	keys     []K
	admitted bool
	ready    chan struct{}
}

// Acquire waits for a slot until ctx ends. The slot counts for each of the keys. Call release
// when the work has ended.
func (l *Limiter[K]) Acquire(ctx context.Context, keys ...K) (release func(), _ error) {
	w := &waiter[K]{keys: keys, ready: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.admit()
	l.mu.Unlock()
	release = sync.OnceFunc(func() { l.leave(w) })
	select {
	case <-w.ready:
		return release, nil
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}

func (l *Limiter[K]) leave(w *waiter[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.admitted {
		l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter[K]) bool { return other == w })
		return
	}
	l.inUse--
	for _, key := range w.keys {
		if l.byKey[key]--; l.byKey[key] == 0 {
			delete(l.byKey, key)
		}
	}
	l.admit()
}

// admit gives free slots to waiting callers. The caller holds the lock.
func (l *Limiter[K]) admit() {
	if l.byKey == nil {
		l.byKey = map[K]int{}
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter[K]) bool {
		isFull := func(key K) bool { return l.byKey[key] >= l.PerKey }
		if l.inUse >= l.Total || slices.ContainsFunc(w.keys, isFull) {
			return false
		}
		l.inUse++
		for _, key := range w.keys {
			l.byKey[key]++
		}
		w.admitted = true
		close(w.ready)
		return true
	})
}
