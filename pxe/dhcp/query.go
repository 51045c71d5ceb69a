// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/links"
)

type Query struct {
	Packet []byte
	// From is the sender. Answers on port 4011 go to it, and a DHCPDECLINE must come from
	// the host's network.
	From netip.AddrPort
	// Link is the interface; zero if the socket does not report it.
	Link Link
	// Bindings are the addresses that earlier exchanges showed; nil means none.
	Bindings *pxe.AddressBindings
}

// Link is an interface of this machine.
type Link = links.Link

// ErrMalformed is returned for a packet that is not a DHCP request of an Ethernet client.
var ErrMalformed = errors.New("malformed DHCP request")

func parse(packet []byte) (*dhcpv4.DHCPv4, dhcpv4.MessageType, error) {
	req, err := dhcpv4.FromBytes(packet)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	kind := req.MessageType()
	switch {
	case req.OpCode != dhcpv4.OpcodeBootRequest:
		return nil, 0, fmt.Errorf("%w: not a request", ErrMalformed)
	case req.HWType != iana.HWTypeEthernet || len(req.ClientHWAddr) != 6:
		return nil, 0, fmt.Errorf("%w: not from Ethernet", ErrMalformed)
	case kind == dhcpv4.MessageTypeNone:
		return nil, 0, fmt.Errorf("%w: no message type (plain BOOTP)", ErrMalformed)
	}
	return req, kind, nil
}

const (
	circuitID        = 1  // RFC 3046 section 3.1
	remoteID         = 2  // RFC 3046 section 3.2
	linkSelection    = 5  // RFC 3527
	serverIDOverride = 11 // RFC 5107
)

// relay describes the relay between client and server. The zero value means no relay.
type relay struct {
	// address is giaddr, the destination of the answer.
	address netip.Addr
	// link is an address of the client's network: giaddr, or the relay's link selection (RFC 3527).
	link netip.Addr
	// serverID is the server identifier that the relay requires, so that renewals pass
	// the relay, too (RFC 5107).
	serverID netip.Addr
	port     pxe.Port
}

// relayOf reads giaddr and option 82. A snooping switch adds the option without giaddr; then
// only its identifiers count. A malformed option is echoed but otherwise ignored.
func relayOf(req *dhcpv4.DHCPv4) relay {
	r := relay{address: addressOf(req.GatewayIPAddr)}
	r.link, r.port.Relay = r.address, r.address
	raw := req.Options.Get(dhcpv4.OptionRelayAgentInformation)
	if raw == nil {
		return r
	}
	r.port.CircuitID = Label(suboption(raw, circuitID))
	r.port.RemoteID = Label(suboption(raw, remoteID))
	if !r.address.IsValid() {
		return r
	}
	if link := addressOf(suboption(raw, linkSelection)); link.IsValid() {
		r.link = link
	}
	r.serverID = addressOf(suboption(raw, serverIDOverride))
	return r
}

// suboption returns the value of a sub-option, or nil if it is missing or truncated.
func suboption(raw []byte, code byte) []byte {
	for len(raw) >= 2 {
		end := 2 + int(raw[1])
		if end > len(raw) {
			return nil
		}
		if raw[0] == code {
			return raw[2:end]
		}
		raw = raw[end:]
	}
	return nil
}

// maxLabel limits the shown part of an identifier, in bytes.
const maxLabel = 64

// Label returns an identifier as text if it is printable ASCII, else in hex.
func Label(id []byte) string {
	id = id[:min(len(id), maxLabel)]
	if len(id) == 0 {
		return ""
	}
	if slices.ContainsFunc(id, func(b byte) bool { return b < 0x20 || b > 0x7e }) {
		return "0x" + hex.EncodeToString(id)
	}
	return string(id)
}

// wrongNetwork returns why a request cannot come from the host's network, or "".
//
// With a relay, the relay must be in the host's network, because the answer goes to it and the rest
// of the packet could be forged. Its link selection must be in the network, too: an address of
// another subnet would be useless to the client. Without a relay the client is on the interface's
// segment. That is certainly wrong only if another interface has the host's subnet.
func wrongNetwork(host pxe.Host, r relay, link Link) string {
	own := host.IPv4Subnet()
	if r.address.IsValid() {
		switch {
		case !isInNetwork(host, r.address):
			return fmt.Sprintf("request came by relay %s, which is not in network %s (%s)", r.address, host.Network, own)
		case r.link != r.address && !isInNetwork(host, r.link):
			return fmt.Sprintf("request came from %s according to relay %s, which is not in network %s (%s)", r.link, r.address, host.Network, own)
		}
		return ""
	}
	overlaps := func(p netip.Prefix) bool { return p.Overlaps(own) }
	if slices.ContainsFunc(link.Subnets, overlaps) || !slices.ContainsFunc(link.OtherSubnets, overlaps) {
		return ""
	}
	return fmt.Sprintf("request came in on interface %s, which is not on network %s (%s)", link.Name, host.Network, own)
}

// isInNetwork reports whether an address is in the host's network or belongs to one of its relays.
func isInNetwork(host pxe.Host, address netip.Addr) bool {
	return host.IPv4Subnet().Contains(address) || slices.Contains(host.Relays, address)
}

// addressOf returns the IPv4 address in a field or option, or the zero Addr.
func addressOf(ip []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !a.Is4() || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
