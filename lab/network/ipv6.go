// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// SetIPv6 replaces the IPv6 addresses by the link-local address of the MAC address and another one;
// the zero value: no other. The stack ignores router advertisements, so the prefix of the address
// decides which addresses are on the link.
func (s *Stack) SetIPv6(address netip.Prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, former := range s.addressesIPv6 {
		if e := s.stack.RemoveAddress(nicID, toAddress(former.Addr())); e != nil {
			return fmt.Errorf("remove address %s: %s", former, e)
		}
	}
	s.addressesIPv6, s.routesIPv6 = nil, nil
	wanted := []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16(linkLocal(s.mac)), 64)}
	if address.IsValid() {
		if !address.Addr().Is6() || address.Addr().Is4In6() {
			return fmt.Errorf("address %s is not IPv6", address)
		}
		wanted = append(wanted, address)
	}
	for _, one := range wanted {
		own := tcpip.AddressWithPrefix{Address: toAddress(one.Addr()), PrefixLen: one.Bits()}
		pa := tcpip.ProtocolAddress{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: own}
		if e := s.stack.AddProtocolAddress(nicID, pa, stack.AddressProperties{}); e != nil {
			return fmt.Errorf("add address %s: %s", one, e)
		}
		s.addressesIPv6 = append(s.addressesIPv6, one)
		s.routesIPv6 = append(s.routesIPv6, tcpip.Route{Destination: own.Subnet(), NIC: nicID})
	}
	s.stack.SetRouteTable(slices.Concat(s.routes, s.routesIPv6))
	return nil
}

// ListenTCPIPv6 listens on an IPv6 address of the stack.
func (s *Stack) ListenTCPIPv6(at netip.AddrPort) (net.Listener, error) {
	l, err := gonet.ListenTCP(s.stack, tcpip.FullAddress{NIC: nicID, Addr: toAddress(at.Addr()), Port: at.Port()}, ipv6.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("listen on TCP %s of %s: %w", at, s.port.name, err)
	}
	return &listener{TCPListener: l}, nil
}

// ListenUDPIPv6 opens a UDP socket on a port (0: any free one) of every IPv6 address and of the
// given multicast groups.
func (s *Stack) ListenUDPIPv6(port uint16, groups ...netip.Addr) (net.PacketConn, error) {
	return s.listenUDP(ipv6.ProtocolNumber, port, groups...)
}
