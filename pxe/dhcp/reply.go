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

// Identity is what one DHCP server says about itself.
type Identity struct {
	// Address is its own: option 54, siaddr, option 66. IPv4. Each replica has
	// its own, so that a client's choice is unambiguous.
	Address netip.Addr
	// BaseURL is its HTTP side, http://host:port without a slash at the end.
	BaseURL string
	// Loaders are the names that its TFTP and HTTP sides serve.
	Loaders Loaders
}

// Answer is what follows from one packet. The zero Answer is silence towards
// somebody unknown.
type Answer struct {
	// Packet is the reply; nil: none.
	Packet []byte
	// To is where it goes.
	To netip.AddrPort
	// Hardware is set when nobody has the address To yet: the client with this
	// hardware address is about to get it, and can be reached by a frame to it
	// only. A socket that cannot send one broadcasts instead.
	Hardware net.HardwareAddr
	// Event is what to tell the Observer, without its time; its Stage is empty
	// when there is nothing to tell.
	Event pxe.BootEvent

	// kind is what is counted.
	kind dhcpv4.MessageType
	// reply is what was answered; MessageTypeNone: nothing.
	reply dhcpv4.MessageType
	// address is what the reply gives, or the client declines.
	address netip.Addr
	// other is another DHCP server, as the Event tells.
	other netip.Addr
	// takes is the address that the host mac takes from another server.
	takes netip.Addr
	mac   net.HardwareAddr
	// known: the client is a host of the directory.
	known bool
}

const (
	serverPort = 67
	clientPort = 68
)

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Reply decides what to answer to one packet (RFC 2131 §4.3, RFC 4578). It is
// pure. The error wraps ErrMalformed and concerns the packet only.
func Reply(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	var ex exchange
	if err := ex.open(id, dir, q); err != nil {
		return Answer{}, err
	}
	if !ex.known {
		return ex.nothing(), nil
	}
	if ex.host.OnlyIPv6() {
		return ex.nothing(), nil
	}
	// Who renews has an address, and asks past every relay.
	if why := misplaced(ex.host, ex.relay, q.Link); why != "" && (ex.relay.address.IsValid() || !addressOf(ex.req.ClientIPAddr).IsValid()) {
		if ex.host.Plan.Kind == pxe.None || !opens(ex.kind) {
			return ex.nothing(), nil
		}
		return ex.event(pxe.StageMisplaced, why), nil
	}
	if ex.host.Mode == pxe.Proxy {
		return ex.proxy(), nil
	}
	return ex.reserve(), nil
}

// opens reports the messages by which a client asks for an address.
func opens(kind dhcpv4.MessageType) bool {
	return kind == dhcpv4.MessageTypeDiscover || kind == dhcpv4.MessageTypeRequest
}

// exchange is one request with everything that decides its answer.
type exchange struct {
	id       Identity
	req      *dhcpv4.DHCPv4
	kind     dhcpv4.MessageType
	from     netip.Addr
	relay    relay
	link     Link
	bindings *pxe.AddressBindings
	known    bool
	host     pxe.Host
	firmware firmware
	boot     boot
	asked    asked
}

// open gathers it. It decides nothing.
func (ex *exchange) open(id Identity, dir pxe.Directory, q Query) error {
	req, kind, err := parse(q.Packet)
	if err != nil {
		return err
	}
	ex.id, ex.req, ex.kind, ex.from, ex.link = id, req, kind, q.From.Addr(), q.Link
	ex.bindings = q.Bindings
	if ex.host, ex.known = dir.Lookup(req.ClientHWAddr); ex.known {
		ex.relay, ex.firmware = relayOf(req), identify(req)
	} else if !ex.stranger(dir) {
		return nil
	}
	ex.relay.port.Interface = q.Link.Name
	ex.boot = id.bootFor(ex.firmware, ex.host)
	ex.asked = askedIn(req)
	return nil
}

// reserve answers where this server gives the addresses.
func (ex *exchange) reserve() Answer {
	switch ex.kind {
	case dhcpv4.MessageTypeDecline:
		return ex.decline()
	case dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform:
	default:
		// RELEASE: the address is recorded, there is nothing to give back.
		return ex.nothing()
	}
	if other, detail := ex.otherServer(); other.IsValid() {
		a := ex.event(pxe.StageOtherServer, detail)
		a.other = other
		return a
	}
	switch {
	case ex.kind == dhcpv4.MessageTypeRequest && !ex.chosen():
		return ex.nothing() // the client took another replica's offer
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

// request answers a DHCPREQUEST in each of its four meanings (RFC 2131 §4.3.2,
// table 4). Where a packet names two addresses, which none of the four does, the
// client's own decides: that is where the answer goes.
func (ex *exchange) request() Answer {
	wanted := addressOf(ex.req.ClientIPAddr) // RENEWING, REBINDING
	if !wanted.IsValid() {
		wanted = addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress)) // SELECTING, INIT-REBOOT
	}
	if !wanted.IsValid() {
		return ex.silent("request names no address")
	}
	if wanted == ex.host.Address.Addr() {
		return ex.lease(dhcpv4.MessageTypeAck, pxe.StageAck)
	}
	detail := fmt.Sprintf("asked for %s, recorded is %s", wanted, ex.host.Address.Addr())
	if ex.firmware != plain && ex.firmware != agent {
		// Some Dell PXE ROMs give up on a NAK (field notes); without an answer
		// they start over with a DISCOVER.
		return ex.silent(detail)
	}
	return ex.nak(detail)
}

// serverID is what this server is called in option 54: its own address, or what
// the relay wants to stand there (RFC 5107 §4).
func (ex *exchange) serverID() netip.Addr {
	if ex.relay.serverID.IsValid() {
		return ex.relay.serverID
	}
	return ex.id.Address
}

// chosen reports whether the packet is for this server: it names it in option
// 54, or names none (all but SELECTING).
func (ex *exchange) chosen() bool {
	named := addressOf(ex.req.Options.Get(dhcpv4.OptionServerIdentifier))
	return !named.IsValid() || named == ex.id.Address || named == ex.serverID()
}

// otherServer finds out that the client takes the offer of a DHCP server that is
// not Ingot's: replicas all give the recorded address.
func (ex *exchange) otherServer() (netip.Addr, string) {
	wanted := addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	if ex.kind != dhcpv4.MessageTypeRequest || ex.chosen() || !wanted.IsValid() ||
		!ex.host.Address.IsValid() || wanted == ex.host.Address.Addr() || ex.host.Plan.Kind == pxe.None {
		return netip.Addr{}, ""
	}
	other := addressOf(ex.req.Options.Get(dhcpv4.OptionServerIdentifier))
	return other, fmt.Sprintf("%s gave it %s, and it took that instead of %s", other, wanted, ex.host.Address.Addr())
}

// decline hears that the address is somebody else's (RFC 2131 §4.3.3), whichever
// replica gave it. It costs the host its address for a while, so that nobody is heard
// from afar: who declines has no address to speak from (table 5), or a relay of the
// network passes it on.
func (ex *exchange) decline() Answer {
	address := addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	if !address.IsValid() || !ex.host.Address.IsValid() || address != ex.host.Address.Addr() {
		return ex.nothing()
	}
	if ex.from.IsValid() && !ex.from.IsUnspecified() && !isOf(ex.host, ex.from) {
		return ex.silent(fmt.Sprintf("declined by %s, which is not of network %s", ex.from, ex.host.Network))
	}
	a := ex.nothing()
	if ex.chosen() {
		a = ex.event(pxe.StageConflict, address.String()+" is in use by another machine")
	}
	a.address = address
	return a
}

// lease builds an OFFER or ACK that gives the recorded address.
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
	ex.addOrder(r)
	a := ex.send(r, stage, ex.firmware.String())
	a.address = ex.host.Address.Addr()
	a.Event.Address = a.address
	return a
}

// inform answers a client that has an address of its own (RFC 2131 §4.3.5):
// parameters, but neither address nor lease time, to ciaddr. Nothing goes to an
// address that cannot be the client's. Where this server gives the addresses, it
// knows the client's: whoever asks from another one is told of the network at most,
// never what to boot or whom to serve, since anybody can write a host's hardware
// address into a packet.
func (ex *exchange) inform() Answer {
	client := addressOf(ex.req.ClientIPAddr)
	if !client.IsValid() || !ex.host.On().Contains(client) {
		return ex.silent(fmt.Sprintf("inform from %s, which is not in %s", ex.req.ClientIPAddr, ex.host.On()))
	}
	own := ex.host.Mode == pxe.Proxy || client == ex.host.Address.Addr()
	if !own && ex.firmware != plain {
		return ex.silent(fmt.Sprintf("inform from %s, recorded is %s", client, ex.host.Address.Addr()))
	}
	r := ex.reply(dhcpv4.MessageTypeAck)
	r.ClientIPAddr = ex.req.ClientIPAddr
	ex.addNetwork(r)
	if own {
		ex.addBoot(r)
		ex.addOrder(r)
	}
	return ex.send(r, pxe.StageAck, ex.firmware.String()+", parameters only")
}

// nak refuses an address (RFC 2131 §4.3.2, table 3): no address fields, no
// other parameters, and broadcast, since the client's address is wrong.
func (ex *exchange) nak(detail string) Answer {
	r := ex.reply(dhcpv4.MessageTypeNak)
	r.SetBroadcast() // so that a relay broadcasts it, too
	set(r, dhcpv4.OptionMessage, []byte("the address is not this host's")...)
	return ex.send(r, pxe.StageNak, detail)
}

// send finishes a reply.
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
	a := ex.nothing()
	a.Event = pxe.BootEvent{MAC: ex.host.MAC, Client: addressOf(ex.req.ClientIPAddr),
		Host: ex.host.Key(), Stage: stage, Detail: detail, Port: ex.relay.port,
		Firmware: ex.firmware.String(), FromAgent: ex.firmware == agent, FromSystem: ex.firmware == plain, Plan: ex.host.Plan.Kind}
	return a
}

// nothing is silence that is not worth a word.
func (ex *exchange) nothing() Answer { return Answer{kind: ex.kind, known: ex.known} }

// reply builds what all replies share: the header fields to be copied, our
// identifier, and the options that clients want to see again: 61 (RFC 6842),
// 82 (RFC 3046 §2.2) and 97, without which some UEFI ignores the reply (RFC
// 4578 §2.3).
func (ex *exchange) reply(kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	// The options are the largest thing that is made for an answer; firmware gets most.
	room := 14
	if ex.firmware != plain {
		room = 24
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
		Options:       make(dhcpv4.Options, room),
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

// destination follows RFC 2131 §4.1: the relay, else the address the client
// already has, else everybody if the client wants that or is given no address,
// else the client's hardware at the address that it is given. What a client asks for
// by DHCPINFORM goes to its address also if a relay brought it (§4.3.5): where the
// client sent it to everybody, its relay need not take answers to what has no lease.
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
