// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/expiring"
)

const (
	// quarantine is how long an address that was declined is not given: as long
	// as dnsmasq waits with a static one. It is recorded for the host and for
	// nobody else, so there is no other to give meanwhile; afterwards whoever
	// had it may be gone.
	quarantine = 10 * time.Minute
	// quiet is how long the same finding is not logged again.
	quiet = 10 * time.Minute
)

// memory is all that the server remembers of what it heard: nothing that an
// answer needs in order to be right, and nothing that other replicas must know.
// The zero value is ready; it is safe for concurrent use.
type memory struct {
	declined expiring.Set[netip.Addr]
	told     expiring.Set[finding]
}

// finding is something that people are told once in a while.
type finding struct {
	stage pxe.Stage
	mac   [6]byte
	peer  netip.Addr
}
