// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// proxy answers on a network whose addresses come from another server (PXE 2.1 section 2.2.3).
// Its offer has no address, only the boot file, and firmware combines it with the other
// server's offer. A DHCPREQUEST goes to the other server and shows which address the host
// takes. The result is never a NAK.
func (ex *exchange) proxy() Answer {
	bootless := ex.firmware == plain || ex.firmware == agent
	switch {
	case ex.kind == dhcpv4.MessageTypeRequest:
		a := ex.noAnswer()
		// Some ROMs (Intel Boot Agent) request the boot file from the proxyDHCP server that
		// option 54 names, instead of on port 4011.
		if !bootless && ex.boot.answer && addressOf(ex.req.Options.Get(dhcpv4.OptionServerIdentifier)) == ex.id.Address {
			a = ex.sendBootFile(dhcpv4.MessageTypeAck, pxe.StageAck)
		}
		a.takes, a.mac = ex.acceptedAddress(), ex.host.MAC
		return a
	case ex.kind == dhcpv4.MessageTypeInform && ex.firmware == agent && ex.boot.answer:
		return ex.inform()
	case ex.kind != dhcpv4.MessageTypeDiscover || bootless:
		return ex.noAnswer()
	case !ex.boot.answer:
		return ex.silent(ex.boot.why)
	}
	return ex.sendBootFile(dhcpv4.MessageTypeOffer, pxe.StageOffer)
}

func (ex *exchange) sendBootFile(kind dhcpv4.MessageType, stage pxe.Stage) Answer {
	r := ex.reply(kind)
	ex.addBoot(r)
	r.SetBroadcast() // there is no address that a relay could send to (RFC 1542 section 4.1.2)
	return ex.send(r, stage, ex.firmware.String()+", boot file only")
}

// acceptedAddress returns the address that a DHCPREQUEST takes. Before a client has an
// address, it broadcasts its requests (RFC 2131 section 4.3.2, SELECTING and INIT-REBOOT). A
// request from an address of the host's network that is not the relay's could be a forgery
// of a network neighbor and does not count.
func (ex *exchange) acceptedAddress() netip.Addr {
	address := addressOf(ex.req.Options.Get(dhcpv4.OptionRequestedIPAddress))
	unset := !ex.from.IsValid() || ex.from.IsUnspecified()
	relayed := ex.relay.address.IsValid() && (ex.from == ex.relay.address || !ex.host.IPv4Subnet().Contains(ex.from))
	if !ex.host.IPv4Subnet().Contains(address) || !unset && !relayed {
		return netip.Addr{}
	}
	return address
}

// ReplyBINL returns the answer to a packet on port 4011. UEFI firmware requests its boot file
// there after an offer with option 60 "PXEClient" and without option 43, even if that offer
// named a file (PXE 2.1 section 2.2.5; seen with EDK2). The answer has no address and goes to
// the sender, if the sender is in the host's network.
func ReplyBINL(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	var ex exchange
	if err := ex.gather(id, dir, q); err != nil {
		return Answer{}, err
	}
	if !ex.known || (ex.kind != dhcpv4.MessageTypeRequest && ex.kind != dhcpv4.MessageTypeInform) {
		return ex.noAnswer(), nil
	}
	if !ex.boot.answer || ex.boot.file == "" {
		why := ex.boot.why
		if why == "" {
			why = ex.firmware.String() + " requested a boot file, but the plan has none"
		}
		return ex.silent(why), nil
	}
	if !isInNetwork(ex.host, q.From.Addr()) {
		return ex.silent(fmt.Sprintf("requested a boot file from %s, which is not in network %s (%s)", q.From.Addr(), ex.host.Network, ex.host.IPv4Subnet())), nil
	}
	r := ex.reply(dhcpv4.MessageTypeAck)
	r.ClientIPAddr = ex.req.ClientIPAddr
	ex.addBoot(r)
	a := ex.send(r, pxe.StageAck, ex.firmware.String()+", boot file only")
	a.To, a.Hardware = q.From, nil
	return a, nil
}
