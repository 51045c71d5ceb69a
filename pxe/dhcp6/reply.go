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

// Identity is what one DHCPv6 server says about itself.
type Identity struct {
	// duid is its own, so that a client's choice is unambiguous.
	duid dhcpv6.DUID
	// address is where it serves TFTP.
	address netip.Addr
	// boot reads the table of answers.
	boot dhcp.Identity
}

// NewIdentity is that of the server at an IPv6 address, which serves HTTP at a base
// URL (without a slash at the end) and the loaders by TFTP and HTTP. Its DUID is made
// of the address (RFC 8415 §11.5), so it is the same after a restart, on whatever
// machine, and no other replica has it.
func NewIdentity(address netip.Addr, baseURL string, loaders dhcp.Loaders) Identity {
	sum := sha256.Sum256(address.AsSlice())
	id := &dhcpv6.DUIDUUID{UUID: [16]byte(sum[:16])}
	id.UUID[6], id.UUID[8] = id.UUID[6]&0x0f|0x80, id.UUID[8]&0x3f|0x80 // version 8 (RFC 9562 §5.8)
	return Identity{duid: id, address: address, boot: dhcp.Identity{BaseURL: baseURL, Loaders: loaders}}
}

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

	// kind is what is counted.
	kind dhcpv6.MessageType
	// reply is what was answered; 0: nothing.
	reply dhcpv6.MessageType
	// address is what the reply gives, or the client declines.
	address netip.Addr
	known   bool
}

// Reply decides what to answer to one packet (RFC 8415 §18.3). It is pure. The error
// wraps ErrMalformed and concerns the packet only.
func Reply(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	req, err := parse(q)
	if err != nil {
		return Answer{}, err
	}
	ex := exchange{id: id, req: req, link: q.Link}
	ex.host, ex.known = req.host(dir)
	switch {
	case !ex.known, ex.host.IPv6.Mode == pxe.NoIPv6, !ex.valid():
		return ex.nothing(), nil
	case ex.host.Plan.Kind == pxe.None:
		return ex.silent("plan is None"), nil
	}
	if why := req.misplaced(ex.host, q.Link); why != "" {
		return ex.event(pxe.StageMisplaced, why), nil
	}
	if q.Unicast && len(req.relays) == 0 {
		return ex.refuseUnicast(), nil
	}
	ex.boot = id.boot.BootFile(req.client(), ex.host)
	return ex.answer(), nil
}

// exchange is one request with everything that decides its answer.
type exchange struct {
	id    Identity
	req   request
	link  Link
	known bool
	host  pxe.Host
	boot  dhcp.BootFile
}

// valid is RFC 8415 §16: who must name itself, and whom a message may name.
func (ex exchange) valid() bool {
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

// answer answers a valid message of a host on its own network.
func (ex exchange) answer() Answer {
	kind := ex.req.MessageType
	switch {
	case ex.boot.Silent:
		return ex.silent(ex.boot.Why)
	case kind == dhcpv6.MessageTypeInformationRequest:
		return ex.inform()
	case ex.host.IPv6.Mode == pxe.Stateless:
		return ex.silent("the network is stateless: no address is given")
	case kind == dhcpv6.MessageTypeConfirm:
		return ex.confirm()
	case !ex.host.IPv6.Address.Is6():
		return ex.silent("no IPv6 address is recorded")
	}
	switch kind {
	case dhcpv6.MessageTypeSolicit:
		// Every replica would give the same address, so that two replies to one
		// client do no harm.
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

// mostPreferred ends a client's wait for other offers at once (RFC 8415 §18.2.1).
// The recorded address is the only one for the host, whichever replica offers it.
const mostPreferred = 255

// lease gives the recorded address to the first IA_NA of the client, and takes back
// what others it believes to have.
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
				ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: other.IPv6Addr}) // RFC 8415 §18.3.4
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
	ex.addOrder(r)
	a := ex.send(r, stage, ex.boot.Firmware+", DHCPv6")
	a.address, a.Event.Address = address, address
	return a
}

// confirm says whether the client's addresses are of its network (RFC 8415 §18.3.3).
func (ex exchange) confirm() Answer {
	addresses := ex.addresses()
	if len(addresses) == 0 {
		return ex.nothing()
	}
	r := ex.message(dhcpv6.MessageTypeReply)
	if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !ex.host.IPv6.Subnet.Contains(a) }) {
		r.AddOption(status(iana.StatusNotOnLink, "an address is not of this network"))
		return ex.send(r, pxe.StageNak, fmt.Sprintf("has %v, its network is %s", addresses, ex.host.IPv6.Subnet))
	}
	r.AddOption(status(iana.StatusSuccess, ""))
	return ex.send(r, pxe.StageAck, ex.boot.Firmware+", DHCPv6, same network")
}

// inform answers a client that needs no address (RFC 8415 §18.3.6).
func (ex exchange) inform() Answer {
	r := ex.message(dhcpv6.MessageTypeReply)
	ex.addNetwork(r)
	ex.addBoot(r)
	ex.addOrder(r)
	return ex.send(r, pxe.StageAck, ex.boot.Firmware+", DHCPv6, parameters only")
}

// release hears that the client needs its address no more. It stays recorded.
func (ex exchange) release() Answer {
	r := ex.message(dhcpv6.MessageTypeReply)
	r.AddOption(status(iana.StatusSuccess, ""))
	for _, ia := range ex.req.Options.IANA() {
		if slices.ContainsFunc(addressesOf(ia), func(a netip.Addr) bool { return a != ex.host.IPv6.Address }) {
			unknown := &dhcpv6.OptIANA{IaId: ia.IaId}
			unknown.Options.Add(status(iana.StatusNoBinding, "not this host's"))
			r.AddOption(unknown) // RFC 8415 §18.3.7
		}
	}
	return ex.quietly(r)
}

// decline hears that the address is somebody else's (RFC 8415 §18.3.8).
func (ex exchange) decline() Answer {
	r := ex.message(dhcpv6.MessageTypeReply)
	r.AddOption(status(iana.StatusSuccess, ""))
	address := ex.host.IPv6.Address
	if !slices.Contains(ex.addresses(), address) {
		return ex.quietly(r)
	}
	a := ex.send(r, pxe.StageConflict, address.String()+" is in use by another machine")
	a.address = address
	return a
}

// refuseUnicast: no client is told the server's address, so that relays see all
// (RFC 8415 §18.4).
func (ex exchange) refuseUnicast() Answer {
	switch ex.req.MessageType {
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline:
		r := ex.message(dhcpv6.MessageTypeReply)
		r.AddOption(status(iana.StatusUseMulticast, ""))
		return ex.send(r, pxe.StageNak, "asked by unicast")
	}
	return ex.nothing()
}

// addresses are all that the client says to have.
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

// message is what all replies share.
func (ex exchange) message(kind dhcpv6.MessageType) *dhcpv6.Message {
	r := &dhcpv6.Message{MessageType: kind, TransactionID: ex.req.TransactionID}
	r.AddOption(dhcpv6.OptServerID(ex.id.duid))
	if option := ex.req.GetOneOption(dhcpv6.OptionClientID); option != nil {
		r.AddOption(option)
	}
	return r
}

// send finishes a reply.
func (ex exchange) send(r *dhcpv6.Message, stage pxe.Stage, detail string) Answer {
	a := ex.event(stage, detail)
	a.reply = r.MessageType
	a.Packet = ex.req.wrap(r)
	a.To = ex.req.destination()
	return a
}

// quietly finishes a reply that is no step of a boot, and not worth a word.
func (ex exchange) quietly(r *dhcpv6.Message) Answer {
	a := ex.send(r, "", "")
	a.Event = pxe.BootEvent{}
	return a
}

func (ex exchange) silent(why string) Answer { return ex.event(pxe.StageSilent, why) }

func (ex exchange) event(stage pxe.Stage, detail string) Answer {
	a := ex.nothing()
	a.Event = pxe.BootEvent{MAC: ex.host.MAC, Host: ex.host.Namespace + "/" + ex.host.Name,
		Stage: stage, Detail: strings.TrimSpace(detail), Port: ex.req.port(ex.link),
		Firmware: ex.boot.Firmware, FromAgent: ex.boot.Agent, FromSystem: ex.boot.System, Plan: ex.host.Plan.Kind}
	return a
}

// nothing is silence that is not worth a word.
func (ex exchange) nothing() Answer { return Answer{kind: ex.req.MessageType, known: ex.known} }
