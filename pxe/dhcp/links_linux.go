// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"sync"
	"sync/atomic"
	"time"
)

// linksFresh is how long the machine's interfaces are taken for what they were.
const linksFresh = 5 * time.Second

// links remembers the machine's interfaces: asking the kernel for each packet
// would cost more than the answer.
type links struct {
	route   *routeSocket
	current atomic.Pointer[linkTable]
	loading sync.Mutex
	closed  bool // guarded by loading
}

// close lets go of the kernel, once.
func (l *links) close() error {
	l.loading.Lock()
	defer l.loading.Unlock()
	l.closed = true
	return l.route.close()
}

type linkTable struct {
	byIndex map[int]Link
	loaded  time.Time
}

// get returns the interface with the kernel's index; one that the kernel does
// not know any more has only that.
func (l *links) get(index int) Link {
	table := l.current.Load()
	if table == nil || time.Since(table.loaded) > linksFresh {
		table = l.load(table)
	}
	if link, ok := table.byIndex[index]; ok {
		return link
	}
	return Link{Index: index}
}

// load asks the kernel. Who comes while another asks takes the old table, if
// there is one.
func (l *links) load(old *linkTable) *linkTable {
	if old == nil {
		l.loading.Lock()
	} else if !l.loading.TryLock() {
		return old
	}
	defer l.loading.Unlock()
	if now := l.current.Load(); now != nil && now != old {
		return now
	}
	if l.closed {
		return &linkTable{}
	}
	table := newLinkTable(l.route)
	l.current.Store(table)
	return table
}

// newLinkTable reads the interfaces. Without an answer the table is empty, and
// asked for again soon: nobody is misplaced meanwhile.
func newLinkTable(route *routeSocket) *linkTable {
	table := &linkTable{byIndex: map[int]Link{}, loaded: time.Now()}
	names, err := route.names()
	if err != nil {
		return table
	}
	subnets, err := route.subnets()
	if err != nil {
		return table
	}
	for index, name := range names {
		link := Link{Index: index, Name: name, Here: subnets[index]}
		for other, list := range subnets {
			if other != index {
				link.Elsewhere = append(link.Elsewhere, list...)
			}
		}
		table.byIndex[index] = link
	}
	return table
}
