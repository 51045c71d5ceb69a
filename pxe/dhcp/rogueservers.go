// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe/dhcpserver"
)

// maxOthers bounds the servers that are told apart.
const maxOthers = 64

// others are the DHCP servers that are not Ingot's and when each was seen last. Anybody
// can make some up, by packets in a host's name: of those there are no more than can be
// told apart, and one that is real has its place again soon after they end. The zero
// value is ready; it is safe for concurrent use.
type others struct {
	mu   sync.Mutex
	seen map[netip.Addr]time.Time
}

// see notes a server. It is false for one too many: all the others were seen a moment
// ago. forgotten has left its place to it; it is not valid if none had to.
func (o *others) see(server netip.Addr, at time.Time) (known bool, forgotten netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.seen[server]; !there && len(o.seen) == maxOthers {
		if forgotten = o.oldest(); at.Sub(o.seen[forgotten]) < dhcpserver.Quiet {
			return false, netip.Addr{}
		}
		delete(o.seen, forgotten)
	}
	if o.seen == nil {
		o.seen = map[netip.Addr]time.Time{}
	}
	o.seen[server] = at
	return true, forgotten
}

func (o *others) oldest() (server netip.Addr) {
	for other, at := range o.seen {
		if !server.IsValid() || at.Before(o.seen[server]) {
			server = other
		}
	}
	return server
}
