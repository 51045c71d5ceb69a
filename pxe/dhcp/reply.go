// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// Identity is how a DHCP server describes itself to clients.
type Identity struct {
	// Address is the server's IPv4 address, for option 54, siaddr and option 66. Each
	// replica has its own, so that a client's choice is unambiguous.
	Address netip.Addr
	// BaseURL is the HTTP server, http://host:port without a trailing slash.
	BaseURL string
	// Loaders are the file names that TFTP and HTTP serve.
	Loaders Loaders
}

// Answer is the result of one packet. The zero Answer means silence to an unknown client.
type Answer struct {
	Packet []byte
	To     netip.AddrPort
	// Hardware is set if the client does not have the address To yet. Such a client can only
	// be reached by an Ethernet frame. A socket that cannot send frames broadcasts instead.
	Hardware net.HardwareAddr
	// Event is for the Observer, without a time. An empty Stage means no event.
	Event pxe.BootEvent

	kind    dhcpv4.MessageType // of the request, for metrics
	reply   dhcpv4.MessageType // of the answer; MessageTypeNone means none
	address netip.Addr         // given by the reply or declined by the client
	other   netip.Addr         // another DHCP server, for the Event
	// takes is the address that host mac takes from another server.
	takes netip.Addr
	mac   net.HardwareAddr
	known bool // the client is a host of the directory
}

const (
	serverPort = 67
	clientPort = 68
)

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Reply returns the answer to one packet (RFC 2131 section 4.3, RFC 4578). It is pure. Its
// error wraps ErrMalformed.
func Reply(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	var ex exchange
	if err := ex.gather(id, dir, q); err != nil {
		return Answer{}, err
	}
	if !ex.known || ex.host.IsIPv6Only() {
		return ex.noAnswer(), nil
	}
	// A renewing client has an address and bypasses relays.
	if why := wrongNetwork(ex.host, ex.relay, q.Link); why != "" && (ex.relay.address.IsValid() || !addressOf(ex.req.ClientIPAddr).IsValid()) {
		if ex.host.Plan.Kind == pxe.None || !requestsAddress(ex.kind) {
			return ex.noAnswer(), nil
		}
		return ex.event(pxe.StageWrongNetwork, why), nil
	}
	if ex.host.Mode == pxe.Proxy {
		return ex.proxy(), nil
	}
	return ex.reserve(), nil
}

// requestsAddress reports whether a client requests an address with such a message.
func requestsAddress(kind dhcpv4.MessageType) bool {
	return kind == dhcpv4.MessageTypeDiscover || kind == dhcpv4.MessageTypeRequest
}

type exchange struct {
	id        Identity
	req       *dhcpv4.DHCPv4
	kind      dhcpv4.MessageType
	from      netip.Addr
	relay     relay
	link      Link
	bindings  *pxe.AddressBindings
	known     bool
	host      pxe.Host
	firmware  firmware
	boot      boot
	requested optionList
}

func (ex *exchange) gather(id Identity, dir pxe.Directory, q Query) error {
	req, kind, err := parse(q.Packet)
	if err != nil {
		return err
	}
	ex.id, ex.req, ex.kind, ex.from, ex.link = id, req, kind, q.From.Addr(), q.Link
	ex.bindings = q.Bindings
	if ex.host, ex.known = dir.Lookup(req.ClientHWAddr); ex.known {
		ex.relay, ex.firmware = relayOf(req), identify(req)
	} else if !ex.discover(dir) {
		return nil
	}
	ex.relay.port.Interface = q.Link.Name
	ex.boot = id.bootFor(ex.firmware, ex.host)
	ex.requested = req.Options.Get(dhcpv4.OptionParameterRequestList)
	return nil
}

func (ex *exchange) reserve() Answer {
	switch ex.kind {
	case dhcpv4.MessageTypeDecline:
		return ex.decline()
	case dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform:
	default:
		// DHCPRELEASE: the address is recorded permanently.
		return ex.noAnswer()
	}
	if other, detail := ex.otherServer(); other.IsValid() {
		a := ex.event(pxe.StageOtherServer, detail)
		a.other = other
		return a
	}
	switch {
	case ex.kind == dhcpv4.MessageTypeRequest && !ex.isForThisServer():
		return ex.noAnswer() // the client took another replica's offer
	case !ex.host.Address.IsValid() || !ex.host.Address.Addr().Is4():
		return ex.silent("no address is recorded")
	case !ex.boot.answer:
		return ex.silent(ex.boot.why)
	case ex.kind == dhcpv4.MessageTypeDiscover:
		return ex.lease(dhcpv4.MessageTypeOffer, pxe.StageOffer)
	case ex.kind == dhcpv4.MessageTypeRequest:
		return ex.request()
	}
	return ex.inform()
}

// request answers a DHCPREQUEST in each of its four states (RFC 2131 section 4.3.2, table 4).
// If a malformed packet names two addresses, ciaddr counts, because the answer goes there.
func (ex *exchange) request() Answer {
	wanted := addressOf(ex.req.ClientIPAddr) // RENEWING, REBINDING
	if !wanted.IsValid() {
		wanted = addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress)) // SELECTING, INIT-REBOOT
	}
	if !wanted.IsValid() {
		return ex.silent("the request names no address")
	}
	if wanted == ex.host.Address.Addr() {
		return ex.lease(dhcpv4.MessageTypeAck, pxe.StageAck)
	}
	detail := fmt.Sprintf("requested %s, but %s is recorded", wanted, ex.host.Address.Addr())
	if ex.firmware != plain && ex.firmware != agent {
		// Some Dell PXE ROMs give up after a NAK (field notes). Without an answer they
		// start over with a DISCOVER.
		return ex.silent(detail)
	}
	return ex.nak(detail)
}

// serverID returns the value of option 54: this server's address, or the relay's override
// (RFC 5107 section 4).
func (ex *exchange) serverID() netip.Addr {
	if ex.relay.serverID.IsValid() {
		return ex.relay.serverID
	}
	return ex.id.Address
}

// isForThisServer reports whether the packet is for this server: option 54 names it or is absent
// (which is valid in all states but SELECTING).
func (ex *exchange) isForThisServer() bool {
	named := addressOf(ex.req.Options.Get(dhcpv4.OptionServerIdentifier))
	return !named.IsValid() || named == ex.id.Address || named == ex.serverID()
}

// otherServer reports a client that accepts the offer of another DHCP server. Ingot's replicas
// all offer the recorded address, so they are never reported.
func (ex *exchange) otherServer() (netip.Addr, string) {
	wanted := addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	if ex.kind != dhcpv4.MessageTypeRequest || ex.isForThisServer() || !wanted.IsValid() ||
		!ex.host.Address.IsValid() || wanted == ex.host.Address.Addr() || ex.host.Plan.Kind == pxe.None {
		return netip.Addr{}, ""
	}
	other := addressOf(ex.req.Options.Get(dhcpv4.OptionServerIdentifier))
	return other, fmt.Sprintf("took %s from DHCP server %s instead of %s", wanted, other, ex.host.Address.Addr())
}

// decline handles a DHCPDECLINE: another machine uses the host's address (RFC 2131 section 4.3.3).
// Any replica may have given it. The server then withholds the address for a while, so the packet
// must come from a client without an address (table 5) or from a relay of the network.
func (ex *exchange) decline() Answer {
	address := addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	if !address.IsValid() || !ex.host.Address.IsValid() || address != ex.host.Address.Addr() {
		return ex.noAnswer()
	}
	if ex.from.IsValid() && !ex.from.IsUnspecified() && !isInNetwork(ex.host, ex.from) {
		return ex.silent(fmt.Sprintf("ignored a decline from %s, which is not in network %s", ex.from, ex.host.Network))
	}
	a := ex.noAnswer()
	if ex.isForThisServer() {
		a = ex.event(pxe.StageConflict, "another machine uses "+address.String())
	}
	a.address = address
	return a
}

// lease returns an OFFER or ACK with the recorded address.
func (ex *exchange) lease(kind dhcpv4.MessageType, stage pxe.Stage) Answer {
	r := ex.reply(kind)
	r.YourIPAddr = ex.host.Address.Addr().AsSlice()
	if kind == dhcpv4.MessageTypeAck {
		r.ClientIPAddr = ex.req.ClientIPAddr
	}
	lifetime := ex.host.LeaseTime
	if lifetime <= 0 {
		lifetime = pxe.DefaultLeaseTime
	}
	lifetime = max(lifetime.Truncate(time.Second), time.Second)
	set(r, dhcpv4.OptionIPAddressLeaseTime, seconds(lifetime)...)
	set(r, dhcpv4.OptionRenewTimeValue, seconds(lifetime/2)...)
	set(r, dhcpv4.OptionRebindingTimeValue, seconds(lifetime*7/8)...)
	ex.addNetwork(r)
	ex.addBoot(r)
	ex.addAgentOptions(r)
	a := ex.send(r, stage, ex.firmware.String())
	a.address = ex.host.Address.Addr()
	a.Event.Address = a.address
	return a
}

// inform answers a client that already has an address (RFC 2131 section 4.3.5). The answer has
// parameters but neither address nor lease time, and goes to ciaddr, which must be in the host's
// network. In mode Reserve only the recorded address gets boot options, because any machine can
// send packets with the host's MAC address. Other addresses get the network's parameters at most.
func (ex *exchange) inform() Answer {
	client := addressOf(ex.req.ClientIPAddr)
	if !client.IsValid() || !ex.host.IPv4Subnet().Contains(client) {
		return ex.silent(fmt.Sprintf("DHCPINFORM from %s, which is not in %s", ex.req.ClientIPAddr, ex.host.IPv4Subnet()))
	}
	own := ex.host.Mode == pxe.Proxy || client == ex.host.Address.Addr()
	if !own && ex.firmware != plain {
		return ex.silent(fmt.Sprintf("DHCPINFORM from %s, but %s is recorded", client, ex.host.Address.Addr()))
	}
	r := ex.reply(dhcpv4.MessageTypeAck)
	r.ClientIPAddr = ex.req.ClientIPAddr
	ex.addNetwork(r)
	if own {
		ex.addBoot(r)
		ex.addAgentOptions(r)
	}
	return ex.send(r, pxe.StageAck, ex.firmware.String()+", parameters only")
}

// nak refuses an address (RFC 2131 section 4.3.2, table 3): no addresses and no parameters,
// and broadcast, because the client's address is wrong.
func (ex *exchange) nak(detail string) Answer {
	r := ex.reply(dhcpv4.MessageTypeNak)
	r.SetBroadcast() // makes a relay broadcast it, too
	set(r, dhcpv4.OptionMessage, []byte("this address is not recorded for this host")...)
	return ex.send(r, pxe.StageNak, detail)
}

func (ex *exchange) send(r *dhcpv4.DHCPv4, stage pxe.Stage, detail string) Answer {
	fit(r, ex.req)
	a := ex.event(stage, detail)
	a.reply = r.MessageType()
	a.Packet = r.ToBytes()
	a.To, a.Hardware = ex.destination(r)
	return a
}

func (ex *exchange) silent(why string) Answer { return ex.event(pxe.StageSilent, why) }

func (ex *exchange) event(stage pxe.Stage, detail string) Answer {
	a := ex.noAnswer()
	a.Event = pxe.BootEvent{MAC: ex.host.MAC, Client: addressOf(ex.req.ClientIPAddr),
		Host: ex.host.Key(), Stage: stage, Detail: detail, Port: ex.relay.port,
		Firmware: ex.firmware.String(), FromAgent: ex.firmware == agent, FromSystem: ex.firmware == plain, Plan: ex.host.Plan.Kind}
	return a
}

func (ex *exchange) noAnswer() Answer { return Answer{kind: ex.kind, known: ex.known} }

// reply returns the common part of all replies: copied header fields, the server identifier,
// and the options that clients expect back: 61 (RFC 6842), 82 (RFC 3046 section 2.2) and 97,
// without which some UEFI ignores the reply (RFC 4578 section 2.3).
func (ex *exchange) reply(kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	// The options are the largest allocation of an answer. Firmware gets the most options.
	size := 14
	if ex.firmware != plain {
		size = 24
	}
	r := &dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootReply,
		HWType:        ex.req.HWType,
		TransactionID: ex.req.TransactionID,
		Flags:         ex.req.Flags & 0x8000,
		ClientIPAddr:  net.IPv4zero,
		YourIPAddr:    net.IPv4zero,
		ServerIPAddr:  net.IPv4zero,
		GatewayIPAddr: ex.req.GatewayIPAddr,
		ClientHWAddr:  ex.req.ClientHWAddr,
		Options:       make(dhcpv4.Options, size),
	}
	set(r, dhcpv4.OptionDHCPMessageType, byte(kind))
	set(r, dhcpv4.OptionServerIdentifier, ex.serverID().AsSlice()...)
	for _, code := range [...]dhcpv4.OptionCode{dhcpv4.OptionClientIdentifier,
		dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionClientMachineIdentifier} {
		if v := ex.req.Options.Get(code); v != nil {
			set(r, code, v...)
		}
	}
	return r
}

// destination follows RFC 2131 section 4.1:
//
//  1. the relay;
//  2. the address that the client already has;
//  3. broadcast, if the client requests it or gets no address;
//  4. the client's hardware address at its new address.
//
// The answer to a DHCPINFORM goes to the client's address even if a relay forwarded it
// (section 4.3.5): a relay need not accept answers that have no lease.
func (ex *exchange) destination(r *dhcpv4.DHCPv4) (netip.AddrPort, net.HardwareAddr) {
	client, given := addressOf(r.ClientIPAddr), addressOf(r.YourIPAddr)
	switch {
	case ex.relay.address.IsValid() && ex.req.MessageType() != dhcpv4.MessageTypeInform:
		return netip.AddrPortFrom(ex.relay.address, serverPort), nil
	case client.IsValid():
		return netip.AddrPortFrom(client, clientPort), nil
	case r.IsBroadcast() || !given.IsValid():
		return netip.AddrPortFrom(limitedBroadcast, clientPort), nil
	}
	return netip.AddrPortFrom(given, clientPort), ex.req.ClientHWAddr
}
