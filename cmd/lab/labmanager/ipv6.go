// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package labmanager

import (
	"errors"
	"net/netip"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// addIPv6 opens the IPv6 sockets of the boot server and the agent API. It opens none for router
// advertisements, which the lab's servers do not receive.
func addIPv6(sockets *app.Sockets, stack *network.Stack, address netip.Prefix) error {
	if err := stack.SetIPv6(address); err != nil {
		return err
	}
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(address.Addr(), port) }
	agent, agentErr := stack.ListenTCPIPv6(at(agentPort))
	http, httpErr := stack.ListenTCPIPv6(at(bootserver.DefaultHTTPPort))
	requests, dhcpErr := stack.ListenUDPIPv6(bootserver.DHCPv6Port, bootserver.DHCPv6Group())
	tftp, tftpErr := stack.ListenUDPIPv6(bootserver.TFTPPort)
	if err := errors.Join(agentErr, httpErr, dhcpErr, tftpErr); err != nil {
		return err
	}
	sockets.AgentIPv6 = agent
	sockets.Boot.IPv6 = bootserver.SocketsIPv6{
		DHCP: bootserver.DHCPv6Conn(requests), TFTP: tftp, HTTP: http,
	}
	return nil
}
