// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// set sets an option to a value that nobody else writes to. The library's own way wraps
// each value once more, which is a dozen times for a reply.
func set(r *dhcpv4.DHCPv4, code dhcpv4.OptionCode, value ...byte) { r.Options[code.Code()] = value }

// asked are the options that a client asks for (option 55); nil: it does not
// say, and gets what there is.
type asked []byte

func askedIn(req *dhcpv4.DHCPv4) asked { return req.Options.Get(dhcpv4.OptionParameterRequestList) }

// named reports an option that the client asked for by its number.
func (a asked) named(code uint8) bool { return strings.IndexByte(string(a), code) >= 0 }

// wants reports an option that the client asked for, or did not refuse.
func (a asked) wants(code dhcpv4.OptionCode) bool { return len(a) == 0 || a.named(code.Code()) }

// addNetwork adds what the host needs to know of its network: mask, router, DNS
// and names always, since some clients need what they do not ask for; the rest
// if it is asked for.
func (ex *exchange) addNetwork(r *dhcpv4.DHCPv4) {
	h := ex.host
	if h.Mode == pxe.Proxy {
		return // the other server says it
	}
	set(r, dhcpv4.OptionSubnetMask, net.CIDRMask(h.Address.Bits(), 32)...)
	set(r, dhcpv4.OptionBroadcastAddress, lastAddress(h.Address)...)
	if h.Gateway.Is4() {
		set(r, dhcpv4.OptionRouter, h.Gateway.AsSlice()...)
	}
	if list := addresses(h.DNS); len(list) > 0 {
		set(r, dhcpv4.OptionDomainNameServer, list...)
	}
	if fitsOption(h.Hostname) {
		set(r, dhcpv4.OptionHostName, []byte(h.Hostname)...)
	}
	if fitsOption(h.Domain) {
		set(r, dhcpv4.OptionDomainName, []byte(h.Domain)...)
	}
	if list := addresses(h.NTP); len(list) > 0 && ex.asked.wants(dhcpv4.OptionNTPServers) {
		set(r, dhcpv4.OptionNTPServers, list...)
	}
	if h.MTU >= 68 && h.MTU <= 0xffff && ex.asked.wants(dhcpv4.OptionInterfaceMTU) { // RFC 2132 §5.1
		set(r, dhcpv4.OptionInterfaceMTU, byte(h.MTU>>8), byte(h.MTU))
	}
	if len(h.Search) > 0 && ex.asked.wants(dhcpv4.OptionDNSDomainSearchList) {
		if list := searchList(h.Search); len(list) > 0 {
			set(r, dhcpv4.OptionDNSDomainSearchList, list...)
		}
	}
	if len(h.Routes) > 0 && ex.asked.wants(dhcpv4.OptionClasslessStaticRoute) {
		set(r, dhcpv4.OptionClasslessStaticRoute, routes(h)...)
	}
}

// routes is the value of option 121 (RFC 3442): the default route stands in it,
// too, because a client that takes it ignores option 3.
func routes(h pxe.Host) []byte {
	list := h.Routes
	if h.Gateway.Is4() {
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		list = append([]pxe.Route{{Destination: all, Gateway: h.Gateway}}, list...)
	}
	var out []byte
	for _, route := range list {
		if !route.Destination.Addr().Is4() || !route.Gateway.Is4() {
			continue
		}
		bits := route.Destination.Bits()
		destination := route.Destination.Masked().Addr().As4()
		out = append(out, byte(bits))
		out = append(out, destination[:(bits+7)/8]...)
		out = append(out, route.Gateway.AsSlice()...)
	}
	return out
}

// searchList is the value of option 119 (RFC 3397), without compression. A name
// that is none is left out.
func searchList(domains []string) []byte {
	var out []byte
	for _, domain := range domains {
		name, ok := wireName(domain)
		if ok {
			out = append(out, name...)
		}
	}
	return out
}

// wireName writes a domain name as RFC 1035 §3.1 does.
func wireName(domain string) ([]byte, bool) {
	var out []byte
	for label := range strings.SplitSeq(strings.TrimSuffix(domain, "."), ".") {
		if label == "" || len(label) > 63 {
			return nil, false
		}
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0), len(out) < 255
}

// addBoot adds what a network boot client needs. The file's name stands in
// option 67 and in the BOOTP header, which is the only place where U-Boot
// looks. Option 43 stays out: EDK2 ignores what it says about discovery.
func (ex *exchange) addBoot(r *dhcpv4.DHCPv4) {
	if ex.firmware == ipxe && ex.host.Mode == pxe.Reserve {
		set(r, dhcpv4.GenericOptionCode(optionIPXE), optionNoProxy, 1, 1)
	}
	if ex.boot.file == "" {
		// Nor option 60: EDK2 would take the offer for one of a PXE server and
		// spend ten seconds asking for a file on port 4011.
		return
	}
	for _, class := range [...]string{classPXE, classHTTP} {
		if strings.HasPrefix(ex.req.ClassIdentifier(), class) && (class != classPXE || ex.isPXEServer()) {
			set(r, dhcpv4.OptionClassIdentifier, []byte(class)...)
		}
	}
	r.ServerIPAddr = ex.id.Address.AsSlice()
	set(r, dhcpv4.OptionTFTPServerName, []byte(ex.id.Address.String())...)
	file := []byte(ex.boot.file)
	switch ex.firmware {
	case biosROM, uefiX64, uefiARM64:
		// Some ROMs read the option as text that a zero ends, and would ask for what
		// stands behind it, too (field notes).
		file = append(file, 0)
	}
	set(r, dhcpv4.OptionBootfileName, file...)
	if len(ex.boot.file) < 128 { // the field's length, with its terminator
		r.BootFileName = ex.boot.file
	}
}

// isPXEServer reports whether the reply calls its sender a PXE server (option 60). Firmware
// then asks the server that option 54 names on port 4011, and takes the file from there. It
// must not where a relay has its own address in option 54 (RFC 5107), since nothing answers
// at the relay. Some UEFI firmware for Arm (Ampere eMAG) ignores the file's name in such an
// offer, and all of it takes one from a plain DHCP server. Next to another server (mode Proxy)
// an offer without option 60 would be none.
func (ex *exchange) isPXEServer() bool {
	return ex.host.Mode == pxe.Proxy || !ex.relay.serverID.IsValid() && ex.firmware != uefiARM64
}

// addOrder tells the agent where its session is and proves its order, if it
// asks: one that was started without a command line of ours does. Nobody else
// is told. One that came by a CD has its token from there, and only from there.
func (ex *exchange) addOrder(r *dhcpv4.DHCPv4) {
	if ex.firmware != agent || ex.host.Plan.Kind != pxe.Agent {
		return
	}
	boot := ex.host.Plan.Agent
	client := addressOf(ex.req.ClientIPAddr)
	switch {
	case boot.Way == pxe.ByDisc:
		boot.Token = "" // a way to another replica is all that such an agent may need
	case ex.host.Mode == pxe.Proxy && !ex.host.Speaks(client, ex.bindings.At(client)):
		boot.Token = "" // any neighbor can write the host's MAC address into a packet
	}
	for code, text := range map[uint8]string{
		agentapi.OptionServer: boot.Server, agentapi.OptionPin: boot.Pin, agentapi.OptionToken: boot.Token.Reveal(),
		agentapi.OptionFiles: ex.id.BaseURL,
	} {
		if text != "" && ex.asked.named(code) {
			set(r, dhcpv4.GenericOptionCode(code), []byte(text)...)
		}
	}
}

const (
	// header is what precedes the options, with the magic cookie.
	header = 240
	// smallest is the longest message that every client takes, in bytes: a
	// datagram of 576 (RFC 2131 §2) without IP and UDP headers, which option
	// 57 counts in, and largest what one Ethernet frame holds.
	headers  = 28
	smallest = 576 - headers
	largest  = 1500 - headers
)

// fit leaves options out, the least needed first, until the client can take the
// message.
func fit(r *dhcpv4.DHCPv4, req *dhcpv4.DHCPv4) {
	limit := smallest
	if size := req.Options.Get(dhcpv4.OptionMaximumDHCPMessageSize); len(size) == 2 {
		limit = min(max(int(binary.BigEndian.Uint16(size))-headers, smallest), largest)
	}
	for _, code := range [...]dhcpv4.OptionCode{
		dhcpv4.OptionDNSDomainSearchList, dhcpv4.OptionNTPServers, dhcpv4.OptionTFTPServerName,
		dhcpv4.OptionDomainName, dhcpv4.OptionHostName, dhcpv4.OptionBroadcastAddress,
		dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionClientIdentifier,
		dhcpv4.OptionRelayAgentInformation, dhcpv4.GenericOptionCode(agentapi.OptionToken),
	} {
		if size(r.Options) <= limit {
			return
		}
		r.Options.Del(code)
	}
}

// size of a message with these options, in bytes, with the end option and with
// what longer ones cost that are split (RFC 3396).
func size(options dhcpv4.Options) int {
	n := header + 1
	for _, value := range options {
		n += len(value) + 2*max(1, (len(value)+254)/255)
	}
	return n
}

// maxAddresses of a kind are told: as many as an IngotNetwork holds.
const maxAddresses = 8

// addresses is the value of an option with those that are of IPv4.
func addresses(list []netip.Addr) []byte {
	var out []byte
	for _, a := range list {
		if a.Is4() && len(out) < 4*maxAddresses {
			four := a.As4()
			out = append(out, four[:]...)
		}
	}
	return out
}

// seconds is the value of an option with a time.
func seconds(d time.Duration) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(d/time.Second))
}

// fitsOption keeps a text within one option; longer would have to be split.
func fitsOption(text string) bool { return text != "" && len(text) <= 255 }

// lastAddress is the directed broadcast address of a network.
func lastAddress(p netip.Prefix) []byte {
	b := p.Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | uint32(1<<(32-p.Bits())-1)
	return binary.BigEndian.AppendUint32(make([]byte, 0, 4), n)
}
