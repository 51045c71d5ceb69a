// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net/netip"
	"sync"
)

// ClientLimit limits the simultaneous connections of each client address to Max. It is safe
// for concurrent use.
type ClientLimit struct {
	Max int

	mu      sync.Mutex
	current map[netip.Addr]int
}

// Enter counts a new connection and reports whether the client may have it.
func (l *ClientLimit) Enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current[client] >= l.Max {
		return false
	}
	if l.current == nil {
		l.current = map[netip.Addr]int{}
	}
	l.current[client]++
	return true
}

func (l *ClientLimit) Leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current[client]--; l.current[client] == 0 {
		delete(l.current, client)
	}
}

func (l *ClientLimit) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.current)
}
