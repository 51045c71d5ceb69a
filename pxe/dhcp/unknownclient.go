// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// discover asks the directory what an unknown client gets. Clients other than network boot
// firmware and the agent get silence.
func (ex *exchange) discover(dir pxe.Directory) bool {
	discoverer, ok := dir.(pxe.DiscoveryHandler)
	if !ok || !requestsAddress(ex.kind) && ex.kind != dhcpv4.MessageTypeDecline {
		return false
	}
	ex.firmware = identify(ex.req)
	if ex.firmware == plain || ex.firmware == unsupported {
		return false
	}
	ex.relay = relayOf(ex.req)
	if ex.isOffSegment() {
		return false
	}
	s := pxe.UnknownClient{
		MAC: ex.req.ClientHWAddr, Relay: ex.relay.address, Link: ex.relay.link, LocalSubnets: ex.link.Subnets,
		Server: ex.id.Address, Agent: ex.firmware == agent,
	}
	switch ex.kind {
	case dhcpv4.MessageTypeDecline:
		// As for hosts: a distant sender does not prove that it is on the network.
		if ex.from.IsValid() && !ex.from.IsUnspecified() && ex.from != ex.relay.address {
			return false
		}
		s.DeclinedAddress = addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	case dhcpv4.MessageTypeRequest:
		if s.RequestedAddress = addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress)); !s.RequestedAddress.IsValid() {
			s.RequestedAddress = addressOf(ex.req.ClientIPAddr)
		}
		s.AcceptsOtherServer = !ex.isForThisServer()
	}
	ex.host, ex.known = discoverer.Discover(s)
	return ex.known
}

// isOffSegment reports whether an unrelayed packet came from an address outside of the segment's
// subnets. A client never requests an address this way, but an attacker might, to use up
// the leases or to block another machine. A relay may use any of its addresses, so the check
// does not apply to relayed packets.
func (ex *exchange) isOffSegment() bool {
	if ex.relay.address.IsValid() || len(ex.link.Subnets) == 0 || !ex.from.IsValid() || ex.from.IsUnspecified() {
		return false
	}
	return !slices.ContainsFunc(ex.link.Subnets, func(p netip.Prefix) bool { return p.Contains(ex.from) })
}
