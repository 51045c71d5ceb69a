// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
)

// UnknownClient describes a request of a machine that the Directory does not know.
type UnknownClient struct {
	MAC net.HardwareAddr
	// Relay forwarded the request, and Link is an address of the client's network according to the
	// relay. Both are zero for a client on a directly attached segment, whose subnets are in Here.
	Relay, Link  netip.Addr
	LocalSubnets []netip.Prefix
	// Server is the boot server's own address, which no client may get.
	Server netip.Addr
	// Client is the source address of a boot script request, and zero for a DHCP request.
	Client netip.Addr
	// Agent is true if Ingot's agent sent the request, and false for firmware.
	Agent bool
	// RequestedAddress is the address that the client requests; zero means DHCPDISCOVER. Elsewhere is
	// true if the client accepts another server's offer.
	RequestedAddress   netip.Addr
	AcceptsOtherServer bool
	// DeclinedAddress is the address that the client found in use (DHCPDECLINE); zero means none.
	// A decline gets no answer.
	DeclinedAddress netip.Addr
}

// DiscoveryHandler is a Directory that also boots unknown clients. It answers from memory, never
// blocks, and its memory for address leases is bounded.
type DiscoveryHandler interface {
	// Discover returns what an unknown client gets. False means that the boot server stays
	// silent. The boot server calls Discover only for firmware and for Ingot's agent.
	Discover(UnknownClient) (Host, bool)
}
