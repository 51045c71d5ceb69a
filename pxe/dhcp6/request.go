// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/links"
)

// Query is one packet, and where it came in.
type Query struct {
	Packet []byte
	// From is its sender: the client, by its link-local address as a rule, or a relay.
	From netip.AddrPort
	// Unicast: it was sent to the server alone, which no client is invited to.
	Unicast bool
	// Link is the interface; zero where the socket does not tell.
	Link Link
}

// Link is an interface of this machine.
type Link = links.Link

// ErrMalformed reports a packet that is no request of a DHCPv6 client.
var ErrMalformed = errors.New("malformed DHCPv6 request")

// hopLimit bounds the relays on the way (RFC 8415 §7.6, HOP_COUNT_LIMIT).
const hopLimit = 8

// request is a client's message and what stands between the client and this server.
type request struct {
	*dhcpv6.Message
	// relays that passed it on, the nearest to this server first.
	relays []*dhcpv6.RelayMessage
	from   netip.AddrPort
}

// parse accepts what clients send, and relays for them.
func parse(q Query) (request, error) {
	packet, err := dhcpv6.FromBytes(q.Packet)
	if err != nil {
		return request{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := request{from: q.From}
	for {
		switch p := packet.(type) {
		case *dhcpv6.Message:
			r.Message = p
			return r, r.check()
		case *dhcpv6.RelayMessage:
			if p.MessageType != dhcpv6.MessageTypeRelayForward || len(r.relays) == hopLimit {
				return request{}, fmt.Errorf("%w: %s behind %d relays", ErrMalformed, p.MessageType, len(r.relays))
			}
			r.relays = append(r.relays, p)
			packet = p.Options.RelayMessage()
		default:
			return request{}, fmt.Errorf("%w: a relay's message holds none", ErrMalformed)
		}
	}
}

func (r request) check() error {
	switch r.MessageType {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRenew,
		dhcpv6.MessageTypeRebind, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline, dhcpv6.MessageTypeInformationRequest:
		return nil
	}
	return fmt.Errorf("%w: a client does not send %s", ErrMalformed, r.MessageType)
}

// host finds the host that asks.
func (r request) host(dir pxe.Directory) (pxe.Host, bool) {
	mac := r.hardware()
	if len(mac) != 6 {
		return pxe.Host{}, false
	}
	return dir.Lookup(mac)
}

// hardware is the card that asks, by what is nearest to the wire: what the first relay
// saw (RFC 6939), else the interface identifier that the client's address was made of
// (RFC 4291, appendix A). The DUID counts only where those are silent: a system has
// one for all its cards, and a copied image has another server's.
func (r request) hardware() net.HardwareAddr {
	if mac := r.onWire(); mac != nil {
		return mac
	}
	return fromDUID(r.Options.ClientID())
}

// onWire is the card that asks, as the first relay or its address shows it; nil: neither
// does.
func (r request) onWire() net.HardwareAddr {
	client := r.from.Addr()
	if n := len(r.relays); n > 0 {
		first := r.relays[n-1]
		if kind, mac := first.Options.ClientLinkLayerAddress(); kind == iana.HWTypeEthernet {
			return mac
		}
		client, _ = netip.AddrFromSlice(first.PeerAddr)
	}
	return pxe.FromEUI64(client)
}

// fromDUID is the MAC address in a DUID-LLT or DUID-LL (RFC 8415 §11.2 and §11.4).
func fromDUID(id dhcpv6.DUID) net.HardwareAddr {
	switch d := id.(type) {
	case *dhcpv6.DUIDLLT:
		if d.HWType == iana.HWTypeEthernet {
			return d.LinkLayerAddr
		}
	case *dhcpv6.DUIDLL:
		if d.HWType == iana.HWTypeEthernet {
			return d.LinkLayerAddr
		}
	}
	return nil
}

// link is an address of the client's own network, by the nearest relay that gives
// one: a switch that relays on layer 2 gives none (RFC 6221).
func (r request) link() netip.Addr {
	for _, relay := range slices.Backward(r.relays) {
		if address, ok := netip.AddrFromSlice(relay.LinkAddr); ok && !address.IsUnspecified() && !address.IsLinkLocalUnicast() {
			return address
		}
	}
	return netip.Addr{}
}

// misplaced says why a request does not come from the host's network; empty: it
// may. See package dhcp. A relay has two addresses: where the client is, and where it
// speaks from, to which the answer goes. The second may be of the segment between it
// and this server.
func (r request) misplaced(host pxe.Host, link Link) string {
	own, from, at := host.IPv6.Subnet, r.from.Addr(), r.link()
	named := slices.Contains(host.IPv6.Relays, from)
	if at.IsValid() && !own.Contains(at) && !slices.Contains(host.IPv6.Relays, at) && !named {
		return fmt.Sprintf("asked by relay %s, which is not of network %s (%s)", at, host.Network, own)
	}
	if len(r.relays) > 0 {
		near := from.IsLinkLocalUnicast() || slices.ContainsFunc(link.Here, func(p netip.Prefix) bool { return p.Contains(from) })
		if !near && !named && !own.Contains(from) {
			return fmt.Sprintf("asked by a relay that speaks from %s, which is not of network %s (%s)", from, host.Network, own)
		}
	}
	if at.IsValid() {
		return ""
	}
	overlaps := func(p netip.Prefix) bool { return p.Overlaps(own) }
	if slices.ContainsFunc(link.Here, overlaps) || !slices.ContainsFunc(link.Elsewhere, overlaps) {
		return ""
	}
	return fmt.Sprintf("asked on interface %s, which is not that of network %s (%s)", link.Name, host.Network, own)
}

// vouched reports whether an answer with the token goes to the host. The client's address
// or its relay must show the host's MAC address: a DUID is what any machine can write into
// a packet. The relay must be of the host's own network, or named for it: a machine on the
// segment between relay and server may ask for any host. DHCP for IPv4 hears no such relay.
func (r request) vouched(host pxe.Host) bool {
	if !bytes.Equal(r.onWire(), host.MAC) {
		return false
	}
	from := r.from.Addr().WithZone("")
	return len(r.relays) == 0 || host.IPv6.Subnet.Contains(from) || slices.Contains(host.IPv6.Relays, from)
}

// port is where the network says that the client is.
func (r request) port(link Link) pxe.Port {
	p := pxe.Port{Interface: link.Name}
	for _, relay := range slices.Backward(r.relays) { // the nearest to the client says it
		if p.CircuitID == "" {
			p.CircuitID = dhcp.Label(relay.Options.InterfaceID())
		}
		if id := relay.Options.RemoteID(); p.RemoteID == "" && id != nil {
			p.RemoteID = dhcp.Label(id.RemoteID)
		}
	}
	if len(r.relays) > 0 {
		p.Relay = r.from.Addr()
	}
	return p
}

// enterprisePXE is Intel's number, under which firmware gives its class (UEFI 2.10
// §24.3 and §24.7; iPXE does the same).
const enterprisePXE = 343

// client is what boots.
func (r request) client() dhcp.Client {
	var c dhcp.Client
	for _, class := range r.Options.VendorClasses() {
		if c.Class == "" {
			c.Class = string(class.Data[0])
		}
	}
	for _, class := range r.Options.UserClasses() {
		if c.UserClass == "" {
			c.UserClass = string(class)
		}
	}
	for _, arch := range r.Options.ArchTypes() {
		c.Archs = append(c.Archs, uint16(arch))
	}
	return c
}

// wrap puts a reply into what the relays expect (RFC 8415 §19.3): every relay gets
// its interface-id back, and a relay that asks from another port the notice of it
// (RFC 8357).
func (r request) wrap(m *dhcpv6.Message) []byte {
	out := dhcpv6.DHCPv6(m)
	for _, relay := range slices.Backward(r.relays) {
		outer := &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayReply, HopCount: relay.HopCount,
			LinkAddr: relay.LinkAddr, PeerAddr: relay.PeerAddr}
		for _, code := range []dhcpv6.OptionCode{dhcpv6.OptionInterfaceID, dhcpv6.OptionRemoteID, dhcpv6.OptionRelayPort} {
			if option := relay.GetOneOption(code); option != nil {
				outer.AddOption(option)
			}
		}
		outer.AddOption(dhcpv6.OptRelayMessage(out))
		out = outer
	}
	return out.ToBytes()
}

// destination is the client, or the relay, at the port that it sent from if it said
// so.
func (r request) destination() netip.AddrPort {
	if len(r.relays) == 0 {
		return netip.AddrPortFrom(r.from.Addr(), clientPort)
	}
	if r.relays[0].Options.RelayPort() != nil {
		return r.from
	}
	return netip.AddrPortFrom(r.from.Addr(), serverPort)
}
