// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net/netip"
	"sync"
)

// ClientLimit bounds how many connections one client address has at once. It is safe for
// concurrent use.
type ClientLimit struct {
	Max int

	mu      sync.Mutex
	current map[netip.Addr]int
}

// Enter counts a connection, unless the client has Max already.
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

// Leave ends a connection that Enter counted.
func (l *ClientLimit) Leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current[client]--; l.current[client] == 0 {
		delete(l.current, client)
	}
}

// Len returns how many clients have connections.
func (l *ClientLimit) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.current)
}
