// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
)

// Identity is what one DHCP server says about itself.
type Identity struct {
	// Address is its own: option 54, siaddr, option 66. IPv4. Each replica has
	// its own, so that a client's choice is unambiguous.
	Address netip.Addr
	// BaseURL is its HTTP side, http://host:port without a slash at the end.
	BaseURL string
	// Loaders are the names that its TFTP side serves.
	Loaders Loaders
}

// ErrMalformed reports a packet that is no DHCP request from Ethernet.
var ErrMalformed = errors.New("malformed DHCP request")

// Answer is what follows from one packet. The zero Answer is silence towards
// somebody unknown.
type Answer struct {
	// Packet is the reply; nil: none.
	Packet []byte
	// To is where it goes.
	To netip.AddrPort
	// Event is what to tell the Observer, without its time; its Stage is empty
	// when there is nothing to tell.
	Event pxe.BootEvent
}

const (
	serverPort = 67
	clientPort = 68
)

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Reply decides what to answer to one packet (RFC 2131 §4.3, RFC 4578). It is
// pure. The error wraps ErrMalformed and concerns the packet only.
func Reply(id Identity, dir pxe.Directory, packet []byte) (Answer, error) {
	req, err := parse(packet)
	if err != nil {
		return Answer{}, err
	}
	host, known := dir.Lookup(req.ClientHWAddr)
	if !known {
		return Answer{}, nil
	}
	ex := exchange{id: id, req: req, host: host, firmware: identify(req)}
	ex.boot = id.bootFor(ex.firmware, host)
	switch {
	case !host.Address.IsValid() || !host.Address.Addr().Is4():
		return ex.silent("no address is recorded"), nil
	case !ex.boot.answer:
		return ex.silent(fmt.Sprintf("%s asked, plan is %s", ex.firmware, host.Plan.Kind)), nil
	}
	switch req.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return ex.lease(dhcpv4.MessageTypeOffer, pxe.StageOffer), nil
	case dhcpv4.MessageTypeRequest:
		return ex.request(), nil
	case dhcpv4.MessageTypeInform:
		return ex.inform(), nil
	case dhcpv4.MessageTypeDecline:
		if !ex.chosen() {
			return Answer{}, nil
		}
		return ex.event(pxe.StageConflict, host.Address.Addr().String()+" is in use by another machine"), nil
	}
	// RELEASE: the address is recorded, there is nothing to give back.
	return Answer{}, nil
}

// ReplyBINL decides what to answer to one packet that came to port 4011. UEFI
// firmware asks there for the boot file, again, after it has its address from
// an offer that called itself PXEClient (option 60) and had no option 43,
// whether that offer named a file or not (PXE 2.1 §2.2.5; seen with EDK2). The
// answer goes to where the packet came from, and gives no address.
func ReplyBINL(id Identity, dir pxe.Directory, packet []byte, from netip.AddrPort) (Answer, error) {
	req, err := parse(packet)
	if err != nil {
		return Answer{}, err
	}
	host, known := dir.Lookup(req.ClientHWAddr)
	if !known || req.MessageType() != dhcpv4.MessageTypeRequest {
		return Answer{}, nil
	}
	ex := exchange{id: id, req: req, host: host, firmware: identify(req)}
	ex.boot = id.bootFor(ex.firmware, host)
	if !ex.boot.answer || ex.boot.file == "" || ex.firmware == plain {
		return ex.silent(fmt.Sprintf("%s asked for a boot file, plan is %s", ex.firmware, host.Plan.Kind)), nil
	}
	r := ex.reply(dhcpv4.MessageTypeAck)
	r.ClientIPAddr = req.ClientIPAddr
	ex.addBoot(r)
	a := ex.event(pxe.StageAck, ex.firmware.String()+", boot file only")
	a.Packet, a.To = r.ToBytes(), from
	return a, nil
}

// parse accepts requests of Ethernet clients that carry a message type.
func parse(packet []byte) (*dhcpv4.DHCPv4, error) {
	req, err := dhcpv4.FromBytes(packet)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case req.OpCode != dhcpv4.OpcodeBootRequest:
		return nil, fmt.Errorf("%w: not a request", ErrMalformed)
	case req.HWType != iana.HWTypeEthernet || len(req.ClientHWAddr) != 6:
		return nil, fmt.Errorf("%w: not from Ethernet", ErrMalformed)
	case req.MessageType() == dhcpv4.MessageTypeNone:
		return nil, fmt.Errorf("%w: no message type (plain BOOTP)", ErrMalformed)
	}
	return req, nil
}

// exchange is one request with everything that decides its answer.
type exchange struct {
	id       Identity
	req      *dhcpv4.DHCPv4
	host     pxe.Host
	firmware firmware
	boot     boot
}

// request answers a DHCPREQUEST in each of its four meanings (RFC 2131 §4.3.2,
// table 4).
func (ex exchange) request() Answer {
	if !ex.chosen() {
		return Answer{} // the client took another server's offer
	}
	wanted := addressOf(ex.req.RequestedIPAddress()) // SELECTING, INIT-REBOOT
	if !wanted.IsValid() {
		wanted = addressOf(ex.req.ClientIPAddr) // RENEWING, REBINDING
	}
	if !wanted.IsValid() {
		return ex.silent("request names no address")
	}
	if wanted == ex.host.Address.Addr() {
		return ex.lease(dhcpv4.MessageTypeAck, pxe.StageAck)
	}
	detail := fmt.Sprintf("asked for %s, recorded is %s", wanted, ex.host.Address.Addr())
	if ex.firmware != plain {
		// Some Dell PXE ROMs give up on a NAK (field notes); without an answer
		// they start over with a DISCOVER.
		return ex.silent(detail)
	}
	return ex.nak(detail)
}

// chosen reports whether the packet is for this server: it names it in option
// 54, or names none (all but SELECTING).
func (ex exchange) chosen() bool {
	if !ex.req.Options.Has(dhcpv4.OptionServerIdentifier) {
		return true
	}
	return addressOf(ex.req.ServerIdentifier()) == ex.id.Address
}

// lease builds an OFFER or ACK that gives the recorded address.
func (ex exchange) lease(kind dhcpv4.MessageType, stage pxe.Stage) Answer {
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
	r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(lifetime))
	r.UpdateOption(dhcpv4.OptRenewTimeValue(lifetime / 2))
	r.UpdateOption(dhcpv4.OptRebindingTimeValue(lifetime * 7 / 8))
	ex.addNetwork(r)
	ex.addBoot(r)
	a := ex.event(stage, ex.firmware.String())
	a.Packet, a.To = r.ToBytes(), ex.destination(r)
	return a
}

// inform answers a client that has an address of its own (RFC 2131 §4.3.5):
// parameters, but neither address nor lease time, to ciaddr.
func (ex exchange) inform() Answer {
	if !addressOf(ex.req.ClientIPAddr).IsValid() {
		return ex.silent("inform names no address")
	}
	r := ex.reply(dhcpv4.MessageTypeAck)
	r.ClientIPAddr = ex.req.ClientIPAddr
	ex.addNetwork(r)
	ex.addBoot(r)
	a := ex.event(pxe.StageAck, ex.firmware.String()+", parameters only")
	a.Packet, a.To = r.ToBytes(), ex.destination(r)
	return a
}

// nak refuses an address (RFC 2131 §4.3.2, table 3): no address fields, no
// other parameters, and broadcast, since the client's address is wrong.
func (ex exchange) nak(detail string) Answer {
	r := ex.reply(dhcpv4.MessageTypeNak)
	r.UpdateOption(dhcpv4.OptMessage("the address is not this host's"))
	a := ex.event(pxe.StageNak, detail)
	if relay := addressOf(ex.req.GatewayIPAddr); relay.IsValid() {
		r.SetBroadcast() // so that the relay broadcasts it, too
		a.To = netip.AddrPortFrom(relay, serverPort)
	} else {
		a.To = netip.AddrPortFrom(limitedBroadcast, clientPort)
	}
	a.Packet = r.ToBytes()
	return a
}

func (ex exchange) silent(why string) Answer { return ex.event(pxe.StageSilent, why) }

func (ex exchange) event(stage pxe.Stage, detail string) Answer {
	return Answer{Event: pxe.BootEvent{MAC: ex.host.MAC, Client: addressOf(ex.req.ClientIPAddr), Stage: stage, Detail: detail}}
}

// reply builds what all replies share: the header fields to be copied, our
// identifier, and the options that clients want to see again: 61 (RFC 6842),
// 82 (RFC 3046 §2.2) and 97, without which some UEFI ignores the reply (RFC
// 4578 §2.3).
func (ex exchange) reply(kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
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
		Options:       dhcpv4.Options{},
	}
	r.UpdateOption(dhcpv4.OptMessageType(kind))
	r.UpdateOption(dhcpv4.OptServerIdentifier(ex.id.Address.AsSlice()))
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionClientIdentifier,
		dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionClientMachineIdentifier} {
		if v := ex.req.Options.Get(code); v != nil {
			r.UpdateOption(dhcpv4.OptGeneric(code, v))
		}
	}
	return r
}

// addNetwork adds what the host needs to know of its network.
func (ex exchange) addNetwork(r *dhcpv4.DHCPv4) {
	h := ex.host
	mask := net.CIDRMask(h.Address.Bits(), 32)
	r.UpdateOption(dhcpv4.OptSubnetMask(mask))
	r.UpdateOption(dhcpv4.OptBroadcastAddress(lastAddress(h.Address)))
	if h.Gateway.Is4() {
		r.UpdateOption(dhcpv4.OptRouter(h.Gateway.AsSlice()))
	}
	if ips := toIPs(h.DNS); len(ips) > 0 {
		r.UpdateOption(dhcpv4.OptDNS(ips...))
	}
	if ips := toIPs(h.NTP); len(ips) > 0 {
		r.UpdateOption(dhcpv4.OptNTPServers(ips...))
	}
	if fitsOption(h.Hostname) {
		r.UpdateOption(dhcpv4.OptHostName(h.Hostname))
	}
	if fitsOption(h.Domain) {
		r.UpdateOption(dhcpv4.OptDomainName(h.Domain))
	}
	if h.MTU >= 68 && h.MTU <= 0xffff { // RFC 2132 §5.1
		r.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU,
			binary.BigEndian.AppendUint16(nil, uint16(h.MTU))))
	}
}

// addBoot adds what a network boot client needs. The file's name stands in
// option 67 and in the BOOTP header, which is the only place where U-Boot
// looks. Option 43 stays out: EDK2 ignores what it says about discovery.
func (ex exchange) addBoot(r *dhcpv4.DHCPv4) {
	if ex.firmware == plain {
		return
	}
	if ex.firmware == ipxe {
		r.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(optionIPXE), []byte{optionNoProxy, 1, 1}))
	}
	if ex.boot.file == "" {
		// Nor option 60: EDK2 would take the offer for one of a PXE server and
		// spend ten seconds asking for a file on port 4011.
		return
	}
	for _, class := range []string{classPXE, classHTTP} {
		if strings.HasPrefix(ex.req.ClassIdentifier(), class) {
			r.UpdateOption(dhcpv4.OptClassIdentifier(class))
		}
	}
	r.ServerIPAddr = ex.id.Address.AsSlice()
	r.UpdateOption(dhcpv4.OptTFTPServerName(ex.id.Address.String()))
	r.UpdateOption(dhcpv4.OptBootFileName(ex.boot.file))
	if len(ex.boot.file) < 128 { // the field's length, with its terminator
		r.BootFileName = ex.boot.file
	}
}

// destination follows RFC 2131 §4.1: the relay, else the address the client
// already has, else everybody, since a client without an address can only be
// reached by unicast with a hand-made Ethernet frame, and every client takes a
// broadcast.
func (ex exchange) destination(r *dhcpv4.DHCPv4) netip.AddrPort {
	if relay := addressOf(ex.req.GatewayIPAddr); relay.IsValid() {
		return netip.AddrPortFrom(relay, serverPort)
	}
	if client := addressOf(r.ClientIPAddr); client.IsValid() {
		return netip.AddrPortFrom(client, clientPort)
	}
	return netip.AddrPortFrom(limitedBroadcast, clientPort)
}

// addressOf is the address in a field, or the zero Addr for none.
func addressOf(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

func toIPs(addrs []netip.Addr) []net.IP {
	var ips []net.IP
	for _, a := range addrs {
		if a.Is4() && len(ips) < 4 { // more would crowd out the boot options
			ips = append(ips, a.AsSlice())
		}
	}
	return ips
}

// fitsOption keeps a text within one option; longer would have to be split.
func fitsOption(text string) bool { return text != "" && len(text) <= 255 }

// lastAddress is the directed broadcast address of a network.
func lastAddress(p netip.Prefix) net.IP {
	b := p.Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | uint32(1<<(32-p.Bits())-1)
	return binary.BigEndian.AppendUint32(nil, n)
}
