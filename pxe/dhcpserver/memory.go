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
	// Quarantine is how long a declined address is withheld, the same time as in dnsmasq
	// for a static address. The host has no other address, so Ingot tries the same one again
	// afterwards: the other machine may be gone.
	Quarantine = 10 * time.Minute
	// Quiet is how long the same problem is not logged again.
	Quiet = 10 * time.Minute
)

// Memory is what a server remembers of earlier packets. No answer needs it to be correct, and
// replicas need not share it. The zero value is ready to use, and it is safe for concurrent use.
type Memory struct {
	declined ttlset.Set[netip.Addr]
	warned   ttlset.Set[finding]
}

type finding struct {
	stage pxe.Stage
	mac   [6]byte
	peer  netip.Addr
}

// Decline withholds an address for Quarantine.
func (m *Memory) Decline(address netip.Addr, now time.Time) {
	m.declined.Add(address, now, Quarantine)
}

// Use ends the quarantine of an address, because its host uses it.
func (m *Memory) Use(address netip.Addr) { m.declined.Delete(address) }

// Withheld returns why an address is withheld, or "".
func (m *Memory) Withheld(address netip.Addr, now time.Time) string {
	until, declined := m.declined.Has(address, now)
	if !declined {
		return ""
	}
	return fmt.Sprintf("another machine uses %s, so the host declined it; Ingot offers it again at %s",
		address, until.UTC().Format(time.TimeOnly+" UTC"))
}

func (m *Memory) Len() int { return m.declined.Len() + m.warned.Len() }

// Warn logs a problem once per Quiet for each host. If peer is valid, the problem is another
// server, and it is logged once for all hosts.
func (m *Memory) Warn(log *slog.Logger, e pxe.BootEvent, peer netip.Addr) {
	text := warning(e.Stage)
	if text == "" {
		return
	}
	about := finding{stage: e.Stage, peer: peer}
	if !peer.IsValid() {
		copy(about.mac[:], e.MAC)
	}
	if m.warned.Add(about, e.At, Quiet) {
		log.Warn(text, "host", e.Host, "mac", e.MAC.String(), "detail", e.Detail, "port", e.Port.String())
	}
}

func warning(stage pxe.Stage) string {
	switch stage {
	case pxe.StageConflict:
		return "Another machine uses the address of a host"
	case pxe.StageWrongNetwork:
		return "A host sent a DHCP request from another network than its own"
	case pxe.StageOtherServer:
		return "Another DHCP server answers a host"
	case pxe.StageFailed:
		return "Cannot send a DHCP reply"
	}
	return ""
}
