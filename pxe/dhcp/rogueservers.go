// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe/dhcpserver"
)

const maxRogueServers = 64

// rogueServers remembers when each DHCP server outside of Ingot was last seen. Packets with a
// host's MAC address can forge servers, so the memory is bounded. A real server gets a place soon
// after the forgeries end. The zero value is ready to use, and it is safe for concurrent use.
type rogueServers struct {
	mu   sync.Mutex
	seen map[netip.Addr]time.Time
}

// see records a server. It returns false if there are too many, all seen within
// dhcpserver.Quiet. Otherwise evicted is the server that was removed to make room, if any.
func (r *rogueServers) see(server netip.Addr, at time.Time) (known bool, evicted netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.seen[server]; !there && len(r.seen) == maxRogueServers {
		for other, last := range r.seen {
			if !evicted.IsValid() || last.Before(r.seen[evicted]) {
				evicted = other
			}
		}
		if at.Sub(r.seen[evicted]) < dhcpserver.Quiet {
			return false, netip.Addr{}
		}
		delete(r.seen, evicted)
	}
	if r.seen == nil {
		r.seen = map[netip.Addr]time.Time{}
	}
	r.seen[server] = at
	return true, evicted
}
