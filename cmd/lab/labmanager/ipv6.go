// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package labmanager

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
)

// dhcpv6Port and allServers are where clients ask (RFC 8415 section 7.1 and 7.2).
const dhcpv6Port = 547

var allServers = netip.MustParseAddr("ff02::1:2")

// addIPv6 opens what the boot server and the agent API need of IPv6 on the stack. No
// router advertisements are sent there: the lab's servers hear none.
func addIPv6(sockets *app.Sockets, stack *network.Stack, address netip.Prefix) error {
	if err := stack.SetIPv6(address); err != nil {
		return err
	}
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(address.Addr(), port) }
	agent, agentErr := stack.ListenTCPIPv6(at(agentPort))
	http, httpErr := stack.ListenTCPIPv6(at(bootserver.DefaultHTTPPort))
	requests, dhcpErr := stack.ListenUDPIPv6(dhcpv6Port, allServers)
	tftp, tftpErr := stack.ListenUDPIPv6(bootserver.TFTPPort)
	sockets.AgentIPv6 = agent
	sockets.Boot.IPv6 = bootserver.SocketsIPv6{
		DHCP: &dhcpv6Conn{requests}, TFTP: tftp, HTTP: http,
		Transfer: func() (net.PacketConn, error) { return stack.ListenUDPIPv6(0) },
	}
	return errors.Join(agentErr, httpErr, dhcpErr, tftpErr)
}

// dhcpv6Conn is a socket of the stack, which has one interface and tells nothing of it.
type dhcpv6Conn struct{ net.PacketConn }

// Receive implements dhcp6.Conn.
func (c *dhcpv6Conn) Receive(buf []byte) (dhcp6.Query, error) {
	n, from, err := c.ReadFrom(buf)
	if err != nil {
		return dhcp6.Query{}, err
	}
	at, ok := from.(*net.UDPAddr)
	if !ok {
		return dhcp6.Query{}, fmt.Errorf("a DHCPv6 request from %v", from)
	}
	return dhcp6.Query{Packet: buf[:n], From: at.AddrPort()}, nil
}

// Send implements dhcp6.Conn.
func (c *dhcpv6Conn) Send(a dhcp6.Answer, _ dhcp6.Link) error {
	_, err := c.WriteTo(a.Packet, net.UDPAddrFromAddrPort(a.To))
	return err
}
