// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type Link struct {
	// Index and Name are the kernel's.
	Index int
	Name  string
	// Hardware is the MAC address; nil if there is none.
	Hardware net.HardwareAddr
	// Subnets are the subnets of the interface, IPv4 and IPv6. OtherSubnets are the subnets of
	// all other interfaces. Link-local and loopback subnets are left out.
	Subnets, OtherSubnets []netip.Prefix
}

// fresh is the maximal age of the cached interfaces.
const fresh = 5 * time.Second

// Links caches the interfaces, because asking the kernel for each packet would cost more than
// the answer. It is safe for concurrent use. Close it once.
type Links struct {
	route   *routeSocket
	only    []string
	current atomic.Pointer[table]
	loading sync.Mutex
	closed  bool // guarded by loading
}

// Open returns the interfaces of the calling thread's network namespace. Parameter only names
// the served interfaces, which must exist; empty means all.
func Open(only ...string) (*Links, error) {
	route, err := openRouteSocket()
	if err != nil {
		return nil, fmt.Errorf("open route socket: %w", err)
	}
	l := &Links{route: route, only: only}
	for _, name := range only {
		if !slices.ContainsFunc(slices.Collect(maps.Values(l.All())), func(link Link) bool { return link.Name == name }) {
			return nil, errors.Join(fmt.Errorf("interface %s does not exist", name), l.Close())
		}
	}
	return l, nil
}

// Serves reports whether an interface is served.
func (l *Links) Serves(link Link) bool { return len(l.only) == 0 || slices.Contains(l.only, link.Name) }

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

// Get returns the interface with an index. For an unknown index only Index is set.
func (l *Links) Get(index int) Link {
	if link, ok := l.now().byIndex[index]; ok {
		return link
	}
	return Link{Index: index}
}

func (l *Links) All() map[int]Link { return l.now().byIndex }

func (l *Links) now() *table {
	t := l.current.Load()
	if t == nil || time.Since(t.loaded) > fresh {
		t = l.load(t)
	}
	return t
}

// load asks the kernel. Concurrent callers get the old table if there is one.
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

// newTable reads the interfaces. After an error the table is empty until the next read, and
// no request counts as one from the wrong network.
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
		link.Subnets = subnets[link.Index]
		for other, list := range subnets {
			if other != link.Index {
				link.OtherSubnets = append(link.OtherSubnets, list...)
			}
		}
		t.byIndex[link.Index] = link
	}
	return t
}
