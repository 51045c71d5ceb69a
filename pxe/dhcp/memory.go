// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// quarantine is how long an address that was declined is not given: as long
	// as dnsmasq waits with a static one. It is recorded for the host and for
	// nobody else, so there is no other to give meanwhile; afterwards whoever
	// had it may be gone.
	quarantine = 10 * time.Minute
	// quiet is how long the same finding is not logged again.
	quiet = 10 * time.Minute
	// maxRemembered bounds each memory. Only known hosts get into one, so it is
	// for inventories that are larger than any.
	maxRemembered = 1 << 16
)

// memory is all that the server remembers of what it heard: nothing that an
// answer needs in order to be right, and nothing that other replicas must know.
// The zero value is ready; it is safe for concurrent use.
type memory struct {
	declined expiring[netip.Addr]
	told     expiring[finding]
}

// finding is something that people are told once in a while.
type finding struct {
	stage pxe.Stage
	mac   [6]byte
	peer  netip.Addr
}

// expiring is a set whose members leave by themselves.
type expiring[K comparable] struct {
	// size lets those who find it empty pass without the lock.
	size  atomic.Int64
	mu    sync.Mutex
	until map[K]time.Time
	swept time.Time // when the last were put out
}

// sweepEvery bounds how often a full set looks for members that are to leave: it
// looks at all of them.
const sweepEvery = time.Second

// add puts a member in and reports whether it was not there. A full set takes
// nobody in.
func (e *expiring[K]) add(key K, now time.Time, lifetime time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if until, there := e.until[key]; there && now.Before(until) {
		return false
	}
	if len(e.until) >= maxRemembered && now.Sub(e.swept) >= sweepEvery {
		e.swept = now
		for k, until := range e.until {
			if !now.Before(until) {
				delete(e.until, k)
			}
		}
	}
	if e.until == nil {
		e.until = map[K]time.Time{}
	}
	if len(e.until) < maxRemembered {
		e.until[key] = now.Add(lifetime)
	}
	e.size.Store(int64(len(e.until)))
	return true
}

// has reports a member and when it leaves.
func (e *expiring[K]) has(key K, now time.Time) (time.Time, bool) {
	if e.size.Load() == 0 {
		return time.Time{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	until, there := e.until[key]
	if there && !now.Before(until) {
		delete(e.until, key)
		e.size.Store(int64(len(e.until)))
		there = false
	}
	return until, there
}

// remove takes a member out.
func (e *expiring[K]) remove(key K) {
	if e.size.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.until, key)
	e.size.Store(int64(len(e.until)))
}
