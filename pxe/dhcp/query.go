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

// Query is one packet, and where it came in.
type Query struct {
	Packet []byte
	// From is its sender: who asks on port 4011 is answered there, and who takes an
	// address away must be of its network.
	From netip.AddrPort
	// Link is the interface; zero where the socket does not tell.
	Link Link
	// Bindings are what earlier exchanges showed; nil: nothing.
	Bindings *pxe.AddressBindings
}

// Link is an interface of this machine.
type Link = links.Link

// ErrMalformed reports a packet that is no DHCP request from Ethernet.
var ErrMalformed = errors.New("malformed DHCP request")

// parse accepts requests of Ethernet clients that carry a message type.
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

// Sub-options of option 82.
const (
	circuitID        = 1  // RFC 3046 §3.1
	remoteID         = 2  // RFC 3046 §3.2
	linkSelection    = 5  // RFC 3527
	serverIDOverride = 11 // RFC 5107
)

// relay is what stands between the client and this server. The zero value: nothing.
type relay struct {
	// address is giaddr, where the answer goes.
	address netip.Addr
	// link is an address of the client's own network: giaddr, unless the relay
	// names another (RFC 3527).
	link netip.Addr
	// serverID is what the relay wants to be taken for, so that renewals pass
	// it, too (RFC 5107).
	serverID netip.Addr
	port     pxe.Port
}

// relayOf reads giaddr and option 82. A switch that snoops adds the option and
// leaves giaddr alone: then only its IDs count. An option that does not parse
// is echoed, as any is, and otherwise not there.
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

// suboption finds one value; nil when it is not there before the option ends or
// breaks off.
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

// maxLabel bounds what is told of an identifier, in bytes.
const maxLabel = 64

// Label writes an identifier for people: as it is when it is printable ASCII,
// else in hex.
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

// misplaced says why a request does not come from the host's network; empty: it
// may. A relay says where the client is, and must be believed, since an address
// of another subnet would be of no use there; but only one that is of the host's
// network itself: the answer goes to it, and anybody can write the rest of a packet.
// Without a relay the client is on the interface's segment: that is wrong for certain
// only when the host's subnet is that of another interface.
func misplaced(host pxe.Host, r relay, link Link) string {
	own := host.On()
	if r.address.IsValid() {
		switch {
		case !isOf(host, r.address):
			return fmt.Sprintf("asked by relay %s, which is not of network %s (%s)", r.address, host.Network, own)
		case r.link != r.address && !isOf(host, r.link):
			return fmt.Sprintf("asked from %s, as relay %s says, which is not of network %s (%s)", r.link, r.address, host.Network, own)
		}
		return ""
	}
	overlaps := func(p netip.Prefix) bool { return p.Overlaps(own) }
	if slices.ContainsFunc(link.Here, overlaps) || !slices.ContainsFunc(link.Elsewhere, overlaps) {
		return ""
	}
	return fmt.Sprintf("asked on interface %s, which is not that of network %s (%s)", link.Name, host.Network, own)
}

// isOf says whether an address is of the host's network, or of one of its relays.
func isOf(host pxe.Host, address netip.Addr) bool {
	return host.On().Contains(address) || slices.Contains(host.Relays, address)
}

// addressOf is the IPv4 address in a field or option, or the zero Addr for none.
func addressOf(ip []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !a.Is4() || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
