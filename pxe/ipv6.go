// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net/netip"
	"time"
)

// IPv6 is what DHCPv6 gives a host. The zero value means nothing.
type IPv6 struct {
	Mode   IPv6Mode
	Subnet netip.Prefix
	// Address is the host's recorded address. A host without an address gets no answer on
	// a Stateful network. Stateless ignores this field.
	Address netip.Addr
	// Relays are addresses of DHCPv6 relays of the network that are outside of Subnet.
	Relays []netip.Addr
}

// IPv6Mode is how DHCPv6 serves a network.
type IPv6Mode int

const (
	// NoIPv6: DHCPv6 does not answer.
	NoIPv6 IPv6Mode = iota
	// Stateless: hosts make their own addresses from router advertisements and get other
	// options by DHCPv6 (RFC 8415 section 6.1).
	Stateless
	// Stateful: each known host gets its recorded address.
	Stateful
)

func (m IPv6Mode) String() string { return enumName("IPv6Mode", m, "None", "Stateless", "Stateful") }

// IsIPv6Only reports whether the host's network has no IPv4.
func (h Host) IsIPv6Only() bool { return h.IPv6.Mode != NoIPv6 && !h.IPv4Subnet().IsValid() }

// AgentServer returns the host:port where the agent of the host opens its session: for a
// boot by IPv6 if byIPv6 is true, else by IPv4. Empty means that no session is possible.
//
// The manager identifies an agent on IPv6 by the recorded address. Without any recorded
// address it accepts an address that the agent made from its MAC address. An agent whose
// IPv4 address is recorded and whose IPv6 address is not opens its session by IPv4.
func (h Host) AgentServer(byIPv6 bool) string {
	if h.IsIPv6Only() || byIPv6 && h.isKnownByIPv6() && h.Plan.Agent.ServerIPv6 != "" {
		return h.Plan.Agent.ServerIPv6
	}
	return h.Plan.Agent.Server
}

func (h Host) isKnownByIPv6() bool {
	switch h.IPv6.Mode {
	case Stateful:
		return h.IPv6.Address.IsValid()
	case Stateless:
		return h.IsIPv6Only() || h.Mode == Proxy
	}
	return false
}

// Advertisement is the content of a router advertisement (RFC 4861 section 4.2).
type Advertisement struct {
	Network string
	// Prefix is the on-link prefix. Hosts make their own addresses from a 64-bit prefix if
	// Mode is Stateless.
	Prefix netip.Prefix
	// Mode sets the flags M and O.
	Mode IPv6Mode
	// RouterLifetime is how long the sender is a default router; 0 means it is none.
	RouterLifetime time.Duration
	// DNS servers and Search domains (RFC 8106). MTU is in bytes; 0 means no option.
	DNS    []netip.Addr
	Search []string
	MTU    int
}

// Advertised returns the networks to advertise. It answers from memory and never blocks.
type Advertised interface {
	Advertisements() []Advertisement
}
