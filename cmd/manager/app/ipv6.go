// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/controllers/directory"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
)

// bootIPv6Auto has the address looked for.
const bootIPv6Auto = "auto"

// bootIPv6 is --boot-ipv6-address, found among the addresses of the machine where it is
// auto; zero: IPv6 is not served.
func (o *Options) bootIPv6(interfaces func() ([][]netip.Addr, error)) (netip.Addr, error) {
	if o.BootIPv6 == "" {
		return netip.Addr{}, nil
	}
	if o.BootIPv6 != bootIPv6Auto {
		address, err := netip.ParseAddr(o.BootIPv6)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("--boot-ipv6-address: %w", err)
		}
		return address, nil
	}
	lists, err := interfaces()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("--boot-ipv6-address: auto: %w", err)
	}
	own, _ := netip.ParseAddr(o.BootAddress)
	for _, list := range lists {
		if !slices.Contains(list, own) {
			continue
		}
		for _, a := range list {
			if a.Is6() && a.IsGlobalUnicast() {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("--boot-ipv6-address: auto: the interface with %s has no global IPv6 address; give it one, or name the address", o.BootAddress)
}

// interfaceAddresses lists the addresses of each interface.
func interfaceAddresses() ([][]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	var out [][]netip.Addr
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		var list []netip.Addr
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				list = append(list, prefix.Addr())
			}
		}
		out = append(out, list)
	}
	return out, nil
}

// ipv6Side configures the IPv6 side of the boot server, at its address; zero: there is
// none.
func ipv6Side(address netip.Addr, dir *directory.Directory) (bootserver.ConfigIPv6, error) {
	if !address.IsValid() {
		return bootserver.ConfigIPv6{}, nil
	}
	dhcpMetrics, err := dhcp6.NewMetrics(metrics.Registry)
	if err != nil {
		return bootserver.ConfigIPv6{}, err
	}
	return bootserver.ConfigIPv6{Address: address, Advertised: dir, DHCPMetrics: dhcpMetrics}, nil
}

// agentListenIPv6 is where agents come by IPv6 besides what agentListen says: to the
// boot server's address, where that one is bound to the IPv4 one. Empty: nowhere.
func (o *Options) agentListenIPv6(address netip.Addr) string {
	host, port, err := net.SplitHostPort(o.AgentListen)
	if err != nil || host != "" || !address.IsValid() || !o.passesAgents() {
		return "" // all addresses are listened on, or the one that was asked for
	}
	return net.JoinHostPort(address.String(), port)
}

// agentAddressIPv6 is address:port by which servers reach the agent API by IPv6; empty:
// they do not. It is an --agent-address of that family, or else the boot server's, where
// that is listened on.
func (o *Options) agentAddressIPv6(address netip.Addr) string {
	if o.AgentAddress != "" {
		if given, err := netip.ParseAddrPort(o.AgentAddress); err == nil && given.Addr().Unmap().Is6() {
			return o.AgentAddress
		}
		return ""
	}
	host, _, err := net.SplitHostPort(o.AgentListen)
	port, portErr := listenPort(o.AgentListen)
	if err != nil || portErr != nil || !address.IsValid() {
		return ""
	}
	if at, err := netip.ParseAddr(host); err == nil && at != netip.IPv6Unspecified() && at != address {
		return "" // other addresses are listened on
	}
	return netip.AddrPortFrom(address, port).String()
}
