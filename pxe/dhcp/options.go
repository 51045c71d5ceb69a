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

// set sets an option. The caller must not reuse value. The library's own method wraps each
// value once more, which adds a dozen allocations per reply.
func set(r *dhcpv4.DHCPv4, code dhcpv4.OptionCode, value ...byte) { r.Options[code.Code()] = value }

// optionList is a parameter request list (option 55). A client without a list gets all options.
type optionList []byte

func (o optionList) has(code uint8) bool { return strings.IndexByte(string(o), code) >= 0 }

func (o optionList) wants(code dhcpv4.OptionCode) bool { return len(o) == 0 || o.has(code.Code()) }

// addNetwork adds the network's parameters. Mask, router, DNS and names are always included,
// because some clients need options that they do not request.
func (ex *exchange) addNetwork(r *dhcpv4.DHCPv4) {
	h := ex.host
	if h.Mode == pxe.Proxy {
		return // the other server sends them
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
	if list := addresses(h.NTP); len(list) > 0 && ex.requested.wants(dhcpv4.OptionNTPServers) {
		set(r, dhcpv4.OptionNTPServers, list...)
	}
	if h.MTU >= 68 && h.MTU <= 0xffff && ex.requested.wants(dhcpv4.OptionInterfaceMTU) { // RFC 2132 section 5.1
		set(r, dhcpv4.OptionInterfaceMTU, byte(h.MTU>>8), byte(h.MTU))
	}
	if len(h.Search) > 0 && ex.requested.wants(dhcpv4.OptionDNSDomainSearchList) {
		if list := searchList(h.Search); len(list) > 0 {
			set(r, dhcpv4.OptionDNSDomainSearchList, list...)
		}
	}
	if len(h.Routes) > 0 && ex.requested.wants(dhcpv4.OptionClasslessStaticRoute) {
		set(r, dhcpv4.OptionClasslessStaticRoute, routes(h)...)
	}
}

// routes returns option 121 (RFC 3442). It includes the default route, because a client that
// supports option 121 ignores option 3.
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

// searchList returns option 119 (RFC 3397) without compression. It skips invalid names.
func searchList(domains []string) []byte {
	var out []byte
	for _, domain := range domains {
		if name, ok := pxe.EncodeDomain(domain); ok {
			out = append(out, name...)
		}
	}
	return out
}

// addBoot adds the options of a network boot. The file name is in option 67 and in the BOOTP
// header, which is the only place where U-Boot looks. Option 43 is left out, because EDK2
// ignores its discovery settings.
func (ex *exchange) addBoot(r *dhcpv4.DHCPv4) {
	if ex.firmware == ipxe && ex.host.Mode == pxe.Reserve {
		set(r, dhcpv4.GenericOptionCode(optionIPXE), optionNoProxy, 1, 1)
	}
	if ex.boot.file == "" {
		// No option 60 either: EDK2 would take the offer for a PXE server's and spend ten
		// seconds requesting a file on port 4011.
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
		// Some ROMs take the option for a zero-terminated string and would request a file
		// name that includes the bytes after it (field notes).
		file = append(file, 0)
	}
	set(r, dhcpv4.OptionBootfileName, file...)
	if len(ex.boot.file) < 128 { // the field is 128 bytes with its terminator
		r.BootFileName = ex.boot.file
	}
}

// isPXEServer reports whether the reply has option 60 and so looks like a PXE server's.
// Firmware then fetches the file name from port 4011 of the server in option 54.
//
//   - In mode Proxy an offer without option 60 has no effect.
//   - A relay that puts its own address in option 54 (RFC 5107) does not answer on port 4011.
//   - Some Arm UEFI firmware (Ampere eMAG) ignores the file name of such an offer, and all Arm
//     firmware accepts one from a plain DHCP server.
func (ex *exchange) isPXEServer() bool {
	return ex.host.Mode == pxe.Proxy || !ex.relay.serverID.IsValid() && ex.firmware != uefiARM64
}

// addAgentOptions adds the address of the agent's session and the boot token, if the agent requests
// them. An agent that was started without Ingot's kernel arguments does. An agent from a CD
// image gets no token here: its token is on the image.
func (ex *exchange) addAgentOptions(r *dhcpv4.DHCPv4) {
	if ex.firmware != agent || ex.host.Plan.Kind != pxe.Agent {
		return
	}
	boot := ex.host.Plan.Agent
	client := addressOf(ex.req.ClientIPAddr)
	switch {
	case boot.Method == pxe.BootVirtualMedia:
		boot.Token = "" // such an agent only needs the address of another replica
	case ex.host.Mode == pxe.Proxy && !ex.host.MayUseAddress(client, ex.bindings.At(client)):
		boot.Token = "" // any network neighbor can send packets with the host's MAC address
	}
	for _, o := range [...]struct {
		code uint8
		text string
	}{
		{agentapi.OptionServer, boot.Server}, {agentapi.OptionPin, boot.Pin},
		{agentapi.OptionToken, boot.Token.Reveal()}, {agentapi.OptionFiles, ex.id.BaseURL},
	} {
		if o.text != "" && ex.requested.has(o.code) {
			set(r, dhcpv4.GenericOptionCode(o.code), []byte(o.text)...)
		}
	}
}

const (
	header = 240
	// smallest is the message size that every client accepts: a datagram of 576 bytes (RFC
	// 2131 section 2) without IP and UDP headers, which option 57 includes. largest fits
	// one Ethernet frame.
	headers  = 28
	smallest = 576 - headers
	largest  = 1500 - headers
)

// fit removes options, the least important first, until the message fits the client's limit.
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

// size returns the size of a message in bytes, including the end option and the overhead of
// options longer than 255 bytes (RFC 3396).
func size(options dhcpv4.Options) int {
	n := header + 1
	for _, value := range options {
		n += len(value) + 2*max(1, (len(value)+254)/255)
	}
	return n
}

// maxAddresses limits the addresses per option, as an IngotNetwork does.
const maxAddresses = 8

// addresses returns an option value with the IPv4 addresses of the list.
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

func seconds(d time.Duration) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(d/time.Second))
}

// fitsOption reports whether text fits one option without splitting.
func fitsOption(text string) bool { return text != "" && len(text) <= 255 }

// lastAddress returns the broadcast address of a network.
func lastAddress(p netip.Prefix) []byte {
	b := p.Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | uint32(1<<(32-p.Bits())-1)
	return binary.BigEndian.AppendUint32(make([]byte, 0, 4), n)
}
