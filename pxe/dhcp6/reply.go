// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
)

const (
	serverPort = 547
	clientPort = 546
)

// Identity is how a DHCPv6 server describes itself to clients.
type Identity struct {
	duid    dhcpv6.DUID
	address netip.Addr // of the TFTP server
	boot    dhcp.Identity
}

// NewIdentity returns the identity of the server with an IPv6 address. The base URL of its HTTP
// server has no trailing slash, and TFTP and HTTP serve the loaders. The DUID is made from the
// address (RFC 8415 section 11.5), so it survives restarts and moves, and no other replica has it.
func NewIdentity(address netip.Addr, baseURL string, loaders dhcp.Loaders) Identity {
	sum := sha256.Sum256(address.AsSlice())
	id := &dhcpv6.DUIDUUID{UUID: [16]byte(sum[:16])}
	id.UUID[6], id.UUID[8] = id.UUID[6]&0x0f|0x80, id.UUID[8]&0x3f|0x80 // version 8 (RFC 9562 section 5.8)
	return Identity{duid: id, address: address, boot: dhcp.Identity{BaseURL: baseURL, Loaders: loaders}}
}

// Answer is the result of one packet. The zero Answer means silence to an unknown client.
type Answer struct {
	Packet []byte
	To     netip.AddrPort
	// Event is for the Observer, without a time. An empty Stage means no event.
	Event pxe.BootEvent

	kind    dhcpv6.MessageType // of the request, for metrics
	reply   dhcpv6.MessageType // of the answer; 0 means none
	address netip.Addr         // given by the reply or declined by the client
	known   bool
}

// Reply returns the answer to one packet (RFC 8415 section 18.3). It is pure. Its error wraps
// ErrMalformed.
func Reply(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	req, err := parse(q)
	if err != nil {
		return Answer{}, err
	}
	ex := exchange{id: id, req: req, link: q.Link}
	ex.host, ex.known = req.host(dir)
	switch {
	case !ex.known, ex.host.IPv6.Mode == pxe.NoIPv6, !ex.isValid():
		return ex.noAnswer(), nil
	case ex.host.Plan.Kind == pxe.None:
		return ex.silent("plan is None"), nil
	}
	if why := req.wrongNetwork(ex.host, q.Link); why != "" {
		return ex.event(pxe.StageWrongNetwork, why), nil
	}
	if q.Unicast && len(req.relays) == 0 {
		return ex.refuseUnicast(), nil
	}
	ex.boot = id.boot.BootFile(req.client(), ex.host)
	return ex.answer(), nil
}

type exchange struct {
	id    Identity
	req   request
	link  Link
	known bool
	host  pxe.Host
	boot  dhcp.BootFile
}

// isValid checks the client and server identifiers of a message (RFC 8415 section 16).
func (ex exchange) isValid() bool {
	client, server := ex.req.Options.ClientID() != nil, ex.req.Options.ServerID()
	ours := server != nil && server.Equal(ex.id.duid)
	switch ex.req.MessageType {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		return client && server == nil
	case dhcpv6.MessageTypeInformationRequest:
		o := ex.req.Options
		return (server == nil || ours) && len(o.IANA())+len(o.IATA())+len(o.IAPD()) == 0
	}
	return client && ours // Request, Renew, Release, Decline
}

func (ex exchange) answer() Answer {
	kind := ex.req.MessageType
	switch {
	case ex.boot.Silent:
		return ex.silent(ex.boot.Why)
	case kind == dhcpv6.MessageTypeInformationRequest:
		return ex.inform()
	case ex.host.IPv6.Mode == pxe.Stateless:
		return ex.silent("a stateless network gives no addresses")
	case kind == dhcpv6.MessageTypeConfirm:
		return ex.confirm()
	case !ex.host.IPv6.Address.Is6():
		return ex.silent("no IPv6 address is recorded")
	}
	switch kind {
	case dhcpv6.MessageTypeSolicit:
		// Several replies to one client do no harm: every replica gives the same address.
		if ex.req.GetOneOption(dhcpv6.OptionRapidCommit) != nil {
			return ex.lease(dhcpv6.MessageTypeReply, pxe.StageAck, &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
		}
		return ex.lease(dhcpv6.MessageTypeAdvertise, pxe.StageOffer, dhcpv6.OptPreference(mostPreferred))
	case dhcpv6.MessageTypeRelease:
		return ex.release()
	case dhcpv6.MessageTypeDecline:
		return ex.decline()
	}
	return ex.lease(dhcpv6.MessageTypeReply, pxe.StageAck)
}

// mostPreferred makes clients accept the offer without waiting for others (RFC 8415 section
// 18.2.1). All replicas offer the same recorded address.
const mostPreferred = 255

// lease gives the recorded address to the first IA_NA of the client and revokes the client's
// other addresses.
func (ex exchange) lease(kind dhcpv6.MessageType, stage pxe.Stage, more ...dhcpv6.Option) Answer {
	r := ex.message(kind)
	for _, option := range more {
		r.AddOption(option)
	}
	lifetime := ex.host.LeaseTime
	if lifetime <= 0 {
		lifetime = pxe.DefaultLeaseTime
	}
	lifetime = max(lifetime.Truncate(time.Second), time.Second)
	address := ex.host.IPv6.Address
	for i, asked := range ex.req.Options.IANA() {
		ia := &dhcpv6.OptIANA{IaId: asked.IaId}
		if i > 0 {
			ia.Options.Add(status(iana.StatusNoAddrsAvail, "one address is recorded for a host"))
			r.AddOption(ia)
			continue
		}
		ia.T1, ia.T2 = lifetime/2, lifetime*4/5
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: address.AsSlice(), PreferredLifetime: lifetime, ValidLifetime: lifetime})
		for _, other := range asked.Options.Addresses() {
			if a, _ := netip.AddrFromSlice(other.IPv6Addr); a != address && kind == dhcpv6.MessageTypeReply {
				ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: other.IPv6Addr}) // RFC 8415 section 18.3.4
			}
		}
		r.AddOption(ia)
	}
	for _, asked := range ex.req.Options.IATA() {
		ia := &dhcpv6.OptIATA{IaId: asked.IaId}
		ia.Options.Add(status(iana.StatusNoAddrsAvail, "no temporary addresses are given"))
		r.AddOption(ia)
	}
	for _, asked := range ex.req.Options.IAPD() {
		ia := &dhcpv6.OptIAPD{IaId: asked.IaId}
		ia.Options.Add(status(iana.StatusNoPrefixAvail, "no prefixes are given"))
		r.AddOption(ia)
	}
	ex.addNetwork(r)
	ex.addBoot(r)
	ex.addAgentOptions(r)
	a := ex.send(r, stage, ex.boot.Firmware+", DHCPv6")
	a.address, a.Event.Address = address, address
	return a
}

// confirm reports to the client whether its addresses fit its network (RFC 8415 section 18.3.3).
func (ex exchange) confirm() Answer {
	addresses := ex.addresses()
	if len(addresses) == 0 {
		return ex.noAnswer()
	}
	r := ex.message(dhcpv6.MessageTypeReply)
	if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !ex.host.IPv6.Subnet.Contains(a) }) {
		r.AddOption(status(iana.StatusNotOnLink, "an address is not of this network"))
		return ex.send(r, pxe.StageNak, fmt.Sprintf("has %v, but its network is %s", addresses, ex.host.IPv6.Subnet))
	}
	r.AddOption(status(iana.StatusSuccess, ""))
	return ex.send(r, pxe.StageAck, ex.boot.Firmware+", DHCPv6, same network")
}

// inform answers a client that needs no address (RFC 8415 section 18.3.6).
func (ex exchange) inform() Answer {
	r := ex.message(dhcpv6.MessageTypeReply)
	ex.addNetwork(r)
	ex.addBoot(r)
	ex.addAgentOptions(r)
	return ex.send(r, pxe.StageAck, ex.boot.Firmware+", DHCPv6, parameters only")
}

func (ex exchange) release() Answer {
	r := ex.message(dhcpv6.MessageTypeReply)
	r.AddOption(status(iana.StatusSuccess, ""))
	for _, ia := range ex.req.Options.IANA() {
		if slices.ContainsFunc(addressesOf(ia), func(a netip.Addr) bool { return a != ex.host.IPv6.Address }) {
			unknown := &dhcpv6.OptIANA{IaId: ia.IaId}
			unknown.Options.Add(status(iana.StatusNoBinding, "not this host's"))
			r.AddOption(unknown) // RFC 8415 section 18.3.7
		}
	}
	return ex.sendWithoutEvent(r)
}

// decline handles a DECLINE: another machine uses the address (RFC 8415 section 18.3.8).
func (ex exchange) decline() Answer {
	r := ex.message(dhcpv6.MessageTypeReply)
	r.AddOption(status(iana.StatusSuccess, ""))
	address := ex.host.IPv6.Address
	if !slices.Contains(ex.addresses(), address) {
		return ex.sendWithoutEvent(r)
	}
	a := ex.send(r, pxe.StageConflict, "another machine uses "+address.String())
	a.address = address
	return a
}

// refuseUnicast directs the client to multicast, so that relays see all messages (RFC 8415
// section 18.4). The server never sends the unicast option.
func (ex exchange) refuseUnicast() Answer {
	switch ex.req.MessageType {
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline:
		r := ex.message(dhcpv6.MessageTypeReply)
		r.AddOption(status(iana.StatusUseMulticast, ""))
		return ex.send(r, pxe.StageNak, "sent the request by unicast")
	}
	return ex.noAnswer()
}

func (ex exchange) addresses() []netip.Addr {
	var out []netip.Addr
	for _, ia := range ex.req.Options.IANA() {
		out = append(out, addressesOf(ia)...)
	}
	return out
}

func addressesOf(ia *dhcpv6.OptIANA) []netip.Addr {
	var out []netip.Addr
	for _, a := range ia.Options.Addresses() {
		if address, ok := netip.AddrFromSlice(a.IPv6Addr); ok {
			out = append(out, address)
		}
	}
	return out
}

func status(code iana.StatusCode, text string) *dhcpv6.OptStatusCode {
	return &dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: text}
}

// message returns the common part of all replies.
func (ex exchange) message(kind dhcpv6.MessageType) *dhcpv6.Message {
	r := &dhcpv6.Message{MessageType: kind, TransactionID: ex.req.TransactionID}
	r.AddOption(dhcpv6.OptServerID(ex.id.duid))
	if option := ex.req.GetOneOption(dhcpv6.OptionClientID); option != nil {
		r.AddOption(option)
	}
	return r
}

func (ex exchange) send(r *dhcpv6.Message, stage pxe.Stage, detail string) Answer {
	a := ex.event(stage, detail)
	a.reply = r.MessageType
	a.Packet = ex.req.wrap(r)
	a.To = ex.req.destination()
	return a
}

func (ex exchange) sendWithoutEvent(r *dhcpv6.Message) Answer {
	a := ex.send(r, "", "")
	a.Event = pxe.BootEvent{}
	return a
}

func (ex exchange) silent(why string) Answer { return ex.event(pxe.StageSilent, why) }

func (ex exchange) event(stage pxe.Stage, detail string) Answer {
	a := ex.noAnswer()
	a.Event = pxe.BootEvent{MAC: ex.host.MAC, Host: ex.host.Key(),
		Stage: stage, Detail: strings.TrimSpace(detail), Port: ex.req.port(ex.link),
		Firmware: ex.boot.Firmware, FromAgent: ex.boot.Agent, FromSystem: ex.boot.System, Plan: ex.host.Plan.Kind}
	return a
}

func (ex exchange) noAnswer() Answer { return Answer{kind: ex.req.MessageType, known: ex.known} }
