// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// stranger asks the directory what an unknown machine is given, where it is one that
// boots from the network: whatever else looks for an address gets silence.
func (ex *exchange) stranger(dir pxe.Directory) bool {
	discoverer, ok := dir.(pxe.Discoverer)
	if !ok || !opens(ex.kind) && ex.kind != dhcpv4.MessageTypeDecline {
		return false
	}
	ex.firmware = identify(ex.req)
	if ex.firmware == plain || ex.firmware == unsupported {
		return false
	}
	ex.relay = relayOf(ex.req)
	if ex.fromAfar() {
		return false
	}
	s := pxe.Stranger{
		MAC: ex.req.ClientHWAddr, Relay: ex.relay.address, Link: ex.relay.link, Here: ex.link.Here,
		Server: ex.id.Address, Agent: ex.firmware == agent,
	}
	switch ex.kind {
	case dhcpv4.MessageTypeDecline:
		// As from hosts: not from afar, where nothing says that it is of the network.
		if ex.from.IsValid() && !ex.from.IsUnspecified() && ex.from != ex.relay.address {
			return false
		}
		s.Declines = addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	case dhcpv4.MessageTypeRequest:
		if s.Takes = addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress)); !s.Takes.IsValid() {
			s.Takes = addressOf(ex.req.ClientIPAddr)
		}
		s.Elsewhere = !ex.chosen()
	}
	ex.host, ex.known = discoverer.Discover(s)
	return ex.known
}

// fromAfar says whether the packet was sent to this server alone, by who is not on the
// segment that it came in by: no machine looks for an address in this way without a relay,
// but whoever wants to use up what is lent, or keep a machine out in whose name he writes.
// A relay may speak by any of its addresses, so that nothing follows from that.
func (ex *exchange) fromAfar() bool {
	if ex.relay.address.IsValid() || len(ex.link.Here) == 0 || !ex.from.IsValid() || ex.from.IsUnspecified() {
		return false
	}
	return !slices.ContainsFunc(ex.link.Here, func(p netip.Prefix) bool { return p.Contains(ex.from) })
}
