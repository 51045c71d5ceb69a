// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// routerMAC is the source address of router advertisements.
var routerMAC = net.HardwareAddr{0x02, 0x69, 0x6e, 0x67, 0x6f, 0x74}

const (
	etherTypeIPv6        = 0x86dd
	protocolICMPv6       = 58
	routerSolicitation   = 133
	routerAdvertisement  = 134
	ipv6Header           = 40
	advertisementLength  = 16
	routerSolicitMinimum = ethernetHeader + ipv6Header + 8
)

// AnswerRouterSolicitations adds a router that answers solicitations (RFC 4861 section 4.2) with
// lifetime 0 and no prefix. Clients get no address or route from it, but do not wait for a router
// either: iPXE otherwise loses 13 s before it boots, and systemd-networkd-wait-online 8 s.
func (s *Switch) AnswerRouterSolicitations() error {
	var port *Port
	ready := make(chan struct{})
	port, err := s.Plug("router", func(frame []byte) {
		<-ready
		if isRouterSolicitation(frame) {
			port.Send(newRouterAdvertisement())
		}
	})
	if err != nil {
		return fmt.Errorf("plug router: %w", err)
	}
	close(ready)
	return nil
}

func isRouterSolicitation(frame []byte) bool {
	return len(frame) >= routerSolicitMinimum &&
		binary.BigEndian.Uint16(frame[12:]) == etherTypeIPv6 &&
		frame[ethernetHeader+6] == protocolICMPv6 &&
		frame[ethernetHeader+ipv6Header] == routerSolicitation
}

// newRouterAdvertisement returns the frame to all nodes, with the required hop limit 255 and no
// options.
func newRouterAdvertisement() []byte {
	src := linkLocal(routerMAC)
	dst := netip.MustParseAddr("ff02::1").As16()
	f := make([]byte, ethernetHeader+ipv6Header+advertisementLength)
	copy(f[0:], []byte{0x33, 0x33, 0, 0, 0, 1})
	copy(f[6:], routerMAC)
	binary.BigEndian.PutUint16(f[12:], etherTypeIPv6)

	ip := f[ethernetHeader:]
	ip[0] = 6 << 4
	binary.BigEndian.PutUint16(ip[4:], advertisementLength)
	ip[6], ip[7] = protocolICMPv6, 255
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])

	icmp := ip[ipv6Header:]
	icmp[0] = routerAdvertisement
	icmp[4] = 64 // hop limit for hosts; flags, lifetime and timers stay 0
	binary.BigEndian.PutUint16(icmp[2:], icmpv6Checksum(src, dst, icmp))
	return f
}

// linkLocal returns the EUI-64 link-local address of a MAC (RFC 4291 appendix A).
func linkLocal(mac net.HardwareAddr) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]}
}

// icmpv6Checksum returns the ones' complement sum over pseudo-header and message (RFC 8200 section
// 8.1). The checksum field of msg must be zero.
func icmpv6Checksum(src, dst [16]byte, msg []byte) uint16 {
	sum := uint32(len(msg)) + protocolICMPv6
	for _, b := range [][]byte{src[:], dst[:], msg} {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
		if len(b)%2 == 1 {
			sum += uint32(b[len(b)-1]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
