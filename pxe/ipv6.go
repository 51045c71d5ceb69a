// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"fmt"
	"net/netip"
	"time"
)

// IPv6 is what a host is given of IPv6, beside its Address or alone. The zero value:
// nothing.
type IPv6 struct {
	Mode IPv6Mode
	// Subnet are the network's addresses.
	Subnet netip.Prefix
	// Address is the one recorded for the host; without it a host on a Stateful
	// network is not answered. Stateless does not look at it.
	Address netip.Addr
	// Relays are addresses from which relays of the network ask besides those in
	// Subnet.
	Relays []netip.Addr
}

// IPv6Mode is how DHCPv6 serves a network.
type IPv6Mode int

const (
	// NoIPv6: DHCPv6 is silent.
	NoIPv6 IPv6Mode = iota
	// Stateless: hosts make their addresses themselves, from a router's
	// advertisements, and are told the rest (RFC 8415 §6.1).
	Stateless
	// Stateful: each known host gets the address recorded for it.
	Stateful
)

// String is the mode's name in events and logs.
func (m IPv6Mode) String() string {
	switch m {
	case NoIPv6:
		return "None"
	case Stateless:
		return "Stateless"
	case Stateful:
		return "Stateful"
	}
	return fmt.Sprintf("IPv6Mode(%d)", int(m))
}

// OnlyIPv6 says whether the host's network has no IPv4 at all.
func (h Host) OnlyIPv6() bool { return h.IPv6.Mode != NoIPv6 && !h.On().IsValid() }

// AgentServer is where the agent of the host opens its session (host:port), which boots
// or asks by IPv6, or by IPv4. Empty: it cannot.
//
// By IPv6 an agent is known by the address that is recorded for it, or, where none of
// either family is, by one that it made itself on its network. Beside a recorded IPv4
// address it speaks by that one.
func (h Host) AgentServer(byIPv6 bool) string {
	if h.OnlyIPv6() || byIPv6 && h.knownByIPv6() && h.Plan.Agent.ServerIPv6 != "" {
		return h.Plan.Agent.ServerIPv6
	}
	return h.Plan.Agent.Server
}

func (h Host) knownByIPv6() bool {
	switch h.IPv6.Mode {
	case Stateful:
		return h.IPv6.Address.IsValid()
	case Stateless:
		return h.OnlyIPv6() || h.Mode == Proxy
	}
	return false
}

// Advertisement is what routers say of a network, and Ingot in their place where
// it is asked to (RFC 4861 §4.2).
type Advertisement struct {
	// Network is its name, for logs.
	Network string
	// Prefix of the network, which is on the link. A prefix of 64 bits is for
	// addresses that hosts make themselves if Mode is Stateless.
	Prefix netip.Prefix
	// Mode says where addresses come from: the flags M and O.
	Mode IPv6Mode
	// RouterLifetime is how long the sender is a default router; 0: it is none.
	RouterLifetime time.Duration
	// DNS servers and Search domains (RFC 8106); MTU in bytes, 0: not told.
	DNS    []netip.Addr
	Search []string
	MTU    int
}

// Advertised says which networks are to be advertised. It answers from memory and
// never blocks.
type Advertised interface {
	Advertisements() []Advertisement
}
