// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipHeader  = 20
	udpHeader = 8
	protoUDP  = 17
	hopLimit  = 64
)

// datagram returns an IPv4 packet (RFC 791 section 3.1) with UDP (RFC 768). The kernel cannot
// send to a client that has no address yet, because such a client does not answer ARP.
func datagram(payload []byte, from, to netip.AddrPort) []byte {
	p := make([]byte, ipHeader+udpHeader+len(payload))
	p[0] = 4<<4 | ipHeader/4
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[8], p[9] = hopLimit, protoUDP
	source, destination := from.Addr().As4(), to.Addr().As4()
	copy(p[12:], source[:])
	copy(p[16:], destination[:])
	binary.BigEndian.PutUint16(p[10:], ^sum(0, p[:ipHeader]))

	u := p[ipHeader:]
	binary.BigEndian.PutUint16(u[0:], from.Port())
	binary.BigEndian.PutUint16(u[2:], to.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	copy(u[udpHeader:], payload)
	check := ^sum(uint32(sum(uint32(protoUDP)+uint32(len(u)), p[12:ipHeader])), u)
	if check == 0 {
		check = 0xffff // 0 means that there is no checksum
	}
	binary.BigEndian.PutUint16(u[6:], check)
	return p
}

// sum returns the ones' complement sum of the Internet checksum (RFC 1071).
func sum(start uint32, b []byte) uint16 {
	n := start
	for i := 0; i+1 < len(b); i += 2 {
		n += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		n += uint32(b[len(b)-1]) << 8
	}
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}

// payloadOf returns the UDP payload of an IPv4 packet, or nil if the packet is truncated.
func payloadOf(packet []byte) []byte {
	if len(packet) < ipHeader {
		return nil
	}
	at := 4 * int(packet[0]&0xf)
	if at < ipHeader || len(packet) < at+udpHeader {
		return nil
	}
	length := int(binary.BigEndian.Uint16(packet[at+4:]))
	if length < udpHeader || at+length > len(packet) {
		return nil
	}
	return packet[at+udpHeader : at+length]
}
