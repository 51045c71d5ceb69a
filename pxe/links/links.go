// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Link is an interface of this machine.
type Link struct {
	// Index and Name are the kernel's.
	Index int
	Name  string
	// Hardware is its MAC address; nil where it has none.
	Hardware net.HardwareAddr
	// Here are the interface's own subnets, IPv4 and IPv6, Elsewhere those of the
	// machine's other interfaces. None is link-local or loopback.
	Here, Elsewhere []netip.Prefix
}

// fresh is how long the machine's interfaces are taken for what they were.
const fresh = 5 * time.Second

// Links remembers the interfaces: asking the kernel for each packet would cost more
// than the answer. It is safe for concurrent use, and is closed once.
type Links struct {
	route   *routeSocket
	current atomic.Pointer[table]
	loading sync.Mutex
	closed  bool // guarded by loading
}

// Open asks from the network namespace that the thread is in, and stays there.
func Open() (*Links, error) {
	route, err := openRouteSocket()
	if err != nil {
		return nil, fmt.Errorf("open a route socket: %w", err)
	}
	return &Links{route: route}, nil
}

// Close closes the route socket.
func (l *Links) Close() error {
	l.loading.Lock()
	defer l.loading.Unlock()
	l.closed = true
	l.route.Close()
	return nil
}

type table struct {
	byIndex map[int]Link
	loaded  time.Time
}

// Get returns the interface with the kernel's index; one that the kernel does
// not know any more has only that.
func (l *Links) Get(index int) Link {
	if link, ok := l.now().byIndex[index]; ok {
		return link
	}
	return Link{Index: index}
}

// All are the interfaces that there are, by their index.
func (l *Links) All() map[int]Link { return l.now().byIndex }

// Missing is the first of the names that no interface has; empty: all are there.
func (l *Links) Missing(names []string) string {
	for _, name := range names {
		found := false
		for _, link := range l.All() {
			found = found || link.Name == name
		}
		if !found {
			return name
		}
	}
	return ""
}

func (l *Links) now() *table {
	t := l.current.Load()
	if t == nil || time.Since(t.loaded) > fresh {
		t = l.load(t)
	}
	return t
}

// load asks the kernel. Who comes while another asks takes the old table, if
// there is one.
func (l *Links) load(old *table) *table {
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
		return &table{}
	}
	t := newTable(l.route)
	l.current.Store(t)
	return t
}

// newTable reads the interfaces. Without an answer the table is empty, and asked for
// again soon: nobody is misplaced meanwhile.
func newTable(route *routeSocket) *table {
	t := &table{byIndex: map[int]Link{}, loaded: time.Now()}
	list, err := route.links()
	if err != nil {
		return t
	}
	subnets, err := route.subnets()
	if err != nil {
		return t
	}
	for _, link := range list {
		link.Here = subnets[link.Index]
		for other, list := range subnets {
			if other != link.Index {
				link.Elsewhere = append(link.Elsewhere, list...)
			}
		}
		t.byIndex[link.Index] = link
	}
	return t
}
