// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// linksFresh is how long the machine's interfaces are taken for what they were.
const linksFresh = 5 * time.Second

// links remembers the machine's interfaces: asking the kernel for each packet
// would cost more than the answer. The zero value is ready.
type links struct {
	current atomic.Pointer[linkTable]
	loading sync.Mutex
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
	table := readLinks()
	l.current.Store(table)
	return table
}

func readLinks() *linkTable {
	table := &linkTable{byIndex: map[int]Link{}, loaded: time.Now()}
	interfaces, err := net.Interfaces()
	if err != nil {
		return table // asked again soon; nobody is misplaced meanwhile
	}
	subnets := map[int][]netip.Prefix{}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			subnets[i.Index] = subnetsOf(i)
		}
	}
	for _, i := range interfaces {
		link := Link{Index: i.Index, Name: i.Name, Here: subnets[i.Index]}
		for index, list := range subnets {
			if index != i.Index {
				link.Elsewhere = append(link.Elsewhere, list...)
			}
		}
		table.byIndex[i.Index] = link
	}
	return table
}

// subnetsOf are the IPv4 subnets of an interface.
func subnetsOf(i net.Interface) []netip.Prefix {
	addresses, err := i.Addrs()
	if err != nil {
		return nil
	}
	var out []netip.Prefix
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || network.IP.To4() == nil {
			continue
		}
		ones, _ := network.Mask.Size()
		if address, ok := netip.AddrFromSlice(network.IP.To4()); ok {
			out = append(out, netip.PrefixFrom(address, ones).Masked())
		}
	}
	return out
}
