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

type Query struct {
	Packet []byte
	// From is the sender: usually the client's link-local address, or a relay.
	From netip.AddrPort
	// Unicast is true if the packet was not sent to a multicast address.
	Unicast bool
	// Link is the interface; zero if the socket does not report it.
	Link Link
}

// Link is an interface of this machine.
type Link = links.Link

// ErrMalformed is returned for a packet that is not the request of a DHCPv6 client.
var ErrMalformed = errors.New("malformed DHCPv6 request")

// hopLimit limits the number of relays (HOP_COUNT_LIMIT, RFC 8415 section 7.6).
const hopLimit = 8

type request struct {
	*dhcpv6.Message
	// relays forwarded the message, the nearest to this server first.
	relays []*dhcpv6.RelayMessage
	from   netip.AddrPort
}

// parse accepts messages that clients send, directly or by relays.
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
			return request{}, fmt.Errorf("%w: a relay message without a client message", ErrMalformed)
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

// host finds the host of a request. The MAC address seen on the wire counts more than the DUID:
// a system has one DUID for all its NICs, and a copied image has another server's.
func (r request) host(dir pxe.Directory) (pxe.Host, bool) {
	mac := r.hardwareOnWire()
	if mac == nil {
		mac = fromDUID(r.Options.ClientID())
	}
	if len(mac) != 6 {
		return pxe.Host{}, false
	}
	return dir.Lookup(mac)
}

// hardwareOnWire returns the client's MAC address as the first relay saw it (RFC 6939), or else
// as the client's address shows it (RFC 4291, appendix A). It returns nil if neither does.
func (r request) hardwareOnWire() net.HardwareAddr {
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

// fromDUID returns the MAC address in a DUID-LLT or DUID-LL (RFC 8415 sections 11.2 and 11.4).
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

// link returns an address of the client's network from the relay nearest to the client. A
// switch that relays on layer 2 gives no address (RFC 6221).
func (r request) link() netip.Addr {
	for _, relay := range slices.Backward(r.relays) {
		if address, ok := netip.AddrFromSlice(relay.LinkAddr); ok && !address.IsUnspecified() && !address.IsLinkLocalUnicast() {
			return address
		}
	}
	return netip.Addr{}
}

// wrongNetwork returns why a request cannot come from the host's network, or "". See package
// dhcp. A relay has an address on the client's network and the address that it sends from,
// which receives the answer and may be on the segment between relay and server.
func (r request) wrongNetwork(host pxe.Host, link Link) string {
	own, from, at := host.IPv6.Subnet, r.from.Addr(), r.link()
	named := slices.Contains(host.IPv6.Relays, from)
	if at.IsValid() && !own.Contains(at) && !slices.Contains(host.IPv6.Relays, at) && !named {
		return fmt.Sprintf("request came by relay %s, which is not in network %s (%s)", at, host.Network, own)
	}
	if len(r.relays) > 0 {
		near := from.IsLinkLocalUnicast() || slices.ContainsFunc(link.Subnets, func(p netip.Prefix) bool { return p.Contains(from) })
		if !near && !named && !own.Contains(from) {
			return fmt.Sprintf("request came by a relay with source address %s, which is not in network %s (%s)", from, host.Network, own)
		}
	}
	if at.IsValid() {
		return ""
	}
	overlaps := func(p netip.Prefix) bool { return p.Overlaps(own) }
	if slices.ContainsFunc(link.Subnets, overlaps) || !slices.ContainsFunc(link.OtherSubnets, overlaps) {
		return ""
	}
	return fmt.Sprintf("request came in on interface %s, which is not on network %s (%s)", link.Name, host.Network, own)
}

// mayGetToken reports whether the answer may contain the token. The client's address or its relay
// must show the host's MAC address, because any machine can forge a DUID. The relay must be in
// the host's network or in its list of relays: a machine between relay and server could
// request answers for any host. DHCPv4 accepts no such relay.
func (r request) mayGetToken(host pxe.Host) bool {
	if !bytes.Equal(r.hardwareOnWire(), host.MAC) {
		return false
	}
	from := r.from.Addr().WithZone("")
	return len(r.relays) == 0 || host.IPv6.Subnet.Contains(from) || slices.Contains(host.IPv6.Relays, from)
}

// port returns where the client is plugged in, according to the network.
func (r request) port(link Link) pxe.Port {
	p := pxe.Port{Interface: link.Name}
	for _, relay := range slices.Backward(r.relays) { // the nearest to the client first
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

// enterprisePXE is Intel's enterprise number. Firmware and iPXE send their vendor class with
// it (UEFI 2.10 sections 24.3 and 24.7).
const enterprisePXE = 343

// client returns the client's description of itself.
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

// wrap wraps a reply for the relays (RFC 8415 section 19.3). Each relay gets its interface-id
// back, and a relay with its own source port gets the relay port option (RFC 8357).
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

// destination returns the client or the relay. The port is the source port of the request if
// the relay asks for that.
func (r request) destination() netip.AddrPort {
	if len(r.relays) == 0 {
		return netip.AddrPortFrom(r.from.Addr(), clientPort)
	}
	if r.relays[0].Options.RelayPort() != nil {
		return r.from
	}
	return netip.AddrPortFrom(r.from.Addr(), serverPort)
}
