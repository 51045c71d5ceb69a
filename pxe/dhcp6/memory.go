// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/expiring"
)

const (
	// quarantine is how long an address that was declined is not given (see package
	// dhcp).
	quarantine = 10 * time.Minute
	// quiet is how long the same finding is not logged again.
	quiet = 10 * time.Minute
)

// memory is all that the server remembers of what it heard: nothing that an answer
// needs in order to be right. The zero value is ready; it is safe for concurrent use.
type memory struct {
	declined expiring.Set[netip.Addr]
	told     expiring.Set[finding]
}

// finding is something that people are told once in a while.
type finding struct {
	stage pxe.Stage
	host  string
}
