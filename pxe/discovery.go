// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
)

// Stranger is a machine that asks and that the Directory does not know.
type Stranger struct {
	MAC net.HardwareAddr
	// Relay passed its request on, and Link is an address of the network that it says the
	// machine asks from; zero: there is no relay, and it asks from a segment with the
	// subnets Here.
	Relay, Link netip.Addr
	Here        []netip.Prefix
	// Server is the boot server's own address, which is nobody else's.
	Server netip.Addr
	// Client is the address that it speaks from, where it asks for its boot script;
	// zero: it asks for an address.
	Client netip.Addr
	// Agent: it is Ingot's agent that asks, not firmware.
	Agent bool
	// Takes is the address that it says it takes; zero: it looks for one. Elsewhere:
	// it takes another server's.
	Takes     netip.Addr
	Elsewhere bool
	// Declines is the address that it was lent and found to be another's; zero: it does
	// not. It gets no answer.
	Declines netip.Addr
}

// Discoverer is a Directory that has machines boot which it does not know. It
// remembers whom it has lent an address, answers from memory, and never blocks;
// what it remembers is bounded, whoever asks.
type Discoverer interface {
	// Discover returns what the stranger is given. False: nothing; the boot server
	// stays silent. Only for firmware and the agent is it asked: whatever else looks
	// for an address is none of Ingot's.
	Discover(Stranger) (Host, bool)
}
