// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// proxy answers beside a DHCP server that gives the addresses (PXE 2.1 §2.2.3):
// an offer without an address that names the boot file, which firmware takes
// together with the other server's. Requests go to the other server, and show which
// address the host takes. No client gets a NAK: no address is refused here.
func (ex *exchange) proxy() Answer {
	bootless := ex.firmware == plain || ex.firmware == agent
	switch {
	case ex.kind == dhcpv4.MessageTypeRequest:
		a := ex.nothing()
		if !bootless && ex.boot.answer && ex.isNamed() {
			a = ex.confirm()
		}
		a.takes, a.mac = ex.takes(), ex.host.MAC
		return a
	case ex.kind == dhcpv4.MessageTypeInform && ex.firmware == agent && ex.boot.answer:
		return ex.inform()
	case ex.kind != dhcpv4.MessageTypeDiscover || bootless:
		return ex.nothing()
	case !ex.boot.answer:
		return ex.silent(ex.boot.why)
	}
	r := ex.reply(dhcpv4.MessageTypeOffer)
	ex.addBoot(r)
	r.SetBroadcast() // it has no address that a relay could send it to (RFC 1542 section 4.1.2)
	return ex.send(r, pxe.StageOffer, ex.firmware.String()+", boot file only")
}

// isNamed reports a request that names this server in option 54. Some ROMs (Intel Boot
// Agent) ask a proxyDHCP server in this way for what it has offered, and do without port 4011.
func (ex *exchange) isNamed() bool {
	return addressOf(ex.req.Options.Get(dhcpv4.OptionServerIdentifier)) == ex.id.Address
}

// confirm repeats the offer of a boot file.
func (ex *exchange) confirm() Answer {
	r := ex.reply(dhcpv4.MessageTypeAck)
	ex.addBoot(r)
	r.SetBroadcast()
	return ex.send(r, pxe.StageAck, ex.firmware.String()+", boot file only")
}

// takes returns the address that a DHCPREQUEST says the client takes. Clients send it to
// everybody before they have an address (RFC 2131 section 4.3.2, SELECTING and
// INIT-REBOOT). A request that comes from an address of the host's network, and not from
// its relay, was written by a neighbor: that shows nothing.
func (ex *exchange) takes() netip.Addr {
	address := addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	unset := !ex.from.IsValid() || ex.from.IsUnspecified()
	relayed := ex.relay.address.IsValid() && (ex.from == ex.relay.address || !ex.host.On().Contains(ex.from))
	if !ex.host.On().Contains(address) || !unset && !relayed {
		return netip.Addr{}
	}
	return address
}

// ReplyBINL decides what to answer to one packet that came to port 4011. UEFI
// firmware asks there for the boot file, again, after it has its address from
// an offer that called itself PXEClient (option 60) and had no option 43,
// whether that offer named a file or not (PXE 2.1 §2.2.5; seen with EDK2). The
// answer goes to where the packet came from, if that is of the host's network, and gives
// no address.
func ReplyBINL(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	var ex exchange
	if err := ex.open(id, dir, q); err != nil {
		return Answer{}, err
	}
	if !ex.known || (ex.kind != dhcpv4.MessageTypeRequest && ex.kind != dhcpv4.MessageTypeInform) {
		return ex.nothing(), nil
	}
	if !ex.boot.answer || ex.boot.file == "" {
		why := ex.boot.why
		if why == "" {
			why = ex.firmware.String() + " asked for a boot file, and is to have none"
		}
		return ex.silent(why), nil
	}
	if !isOf(ex.host, q.From.Addr()) {
		return ex.silent(fmt.Sprintf("asked for a boot file from %s, which is not of network %s (%s)", q.From.Addr(), ex.host.Network, ex.host.On())), nil
	}
	r := ex.reply(dhcpv4.MessageTypeAck)
	r.ClientIPAddr = ex.req.ClientIPAddr
	ex.addBoot(r)
	a := ex.send(r, pxe.StageAck, ex.firmware.String()+", boot file only")
	a.To, a.Hardware = q.From, nil
	return a, nil
}
