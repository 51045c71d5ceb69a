// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpserver

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	// Quarantine is how long an address that was declined is not given: as long
	// as dnsmasq waits with a static one. It is recorded for the host and for
	// nobody else, so there is no other to give meanwhile; afterwards whoever
	// had it may be gone.
	Quarantine = 10 * time.Minute
	// Quiet is how long the same finding is not logged again.
	Quiet = 10 * time.Minute
)

// Memory is all that a server remembers of what it heard: nothing that an
// answer needs in order to be right, and nothing that other replicas must know.
// The zero value is ready; it is safe for concurrent use.
type Memory struct {
	declined ttlset.Set[netip.Addr]
	told     ttlset.Set[finding]
}

// finding is something that people are told once in a while.
type finding struct {
	stage pxe.Stage
	mac   [6]byte
	peer  netip.Addr
}

// Decline keeps an address from being given for a while.
func (m *Memory) Decline(address netip.Addr, now time.Time) {
	m.declined.Add(address, now, Quarantine)
}

// Use ends that: its host has the address.
func (m *Memory) Use(address netip.Addr) { m.declined.Delete(address) }

// Withheld says why an address is not given now; empty: it is.
func (m *Memory) Withheld(address netip.Addr, now time.Time) string {
	until, declined := m.declined.Has(address, now)
	if !declined {
		return ""
	}
	return fmt.Sprintf("%s was declined, because another machine uses it; it is not given before %s",
		address, until.UTC().Format(time.TimeOnly+" UTC"))
}

// Len is how much is remembered.
func (m *Memory) Len() int { return m.declined.Len() + m.told.Len() }

// Warn logs what people should look at, once in a while for each host; of another server,
// which is the peer, once for all hosts.
func (m *Memory) Warn(log *slog.Logger, e pxe.BootEvent, peer netip.Addr) {
	text := warning(e.Stage)
	if text == "" {
		return
	}
	about := finding{stage: e.Stage, peer: peer}
	if !peer.IsValid() {
		copy(about.mac[:], e.MAC)
	}
	if m.told.Add(about, e.At, Quiet) {
		log.Warn(text, "host", e.Host, "mac", e.MAC.String(), "detail", e.Detail, "port", e.Port.String())
	}
}

// warning is what an operator reads in the log; empty: nothing is wrong.
func warning(stage pxe.Stage) string {
	switch stage {
	case pxe.StageConflict:
		return "The address recorded for a host is used by another machine"
	case pxe.StageMisplaced:
		return "A host asked from another network than its own"
	case pxe.StageOtherServer:
		return "Another DHCP server answers a host"
	case pxe.StageFailed:
		return "A DHCP reply could not be sent"
	}
	return ""
}
