// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/internal/bootconfig"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
)

// bootIPv6Auto is the value of --boot-ipv6-address that selects an address automatically.
const bootIPv6Auto = "auto"

// bootIPv6 returns the address of --boot-ipv6-address, or the zero Addr if IPv6 is disabled. With
// auto, it selects an address of the interface with --boot-address.
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
	return netip.Addr{}, fmt.Errorf("--boot-ipv6-address: auto: the interface with %s has no permanent global IPv6 address (temporary, deprecated and tentative addresses do not count); add one, or set the address explicitly", o.BootAddress)
}

// interfaceAddresses lists the permanent addresses of each interface.
func interfaceAddresses() ([][]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	states, err := os.ReadFile("/proc/net/if_inet6")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
		return nil, fmt.Errorf("read the flags of IPv6 addresses: %w", err)
	}
	var out [][]netip.Addr
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of %s: %w", i.Name, err)
		}
		var list []netip.Prefix
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				list = append(list, prefix)
			}
		}
		out = append(out, permanent(list, transient(string(states))))
	}
	return out, nil
}

// transientFlags are the flags of addresses that servers must not use: temporary (RFC 8981),
// duplicate, deprecated and tentative (IFA_F_ in linux/if_addr.h).
const transientFlags = 0x01 | 0x08 | 0x20 | 0x40

// transient returns the addresses with such a flag in /proc/net/if_inet6. Each line contains address,
// interface index, prefix length, scope and flags in hexadecimal, and the interface name.
func transient(states string) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for line := range strings.Lines(states) {
		fields := strings.Fields(line)
		if len(fields) != 6 {
			continue
		}
		raw, err := hex.DecodeString(fields[0])
		flags, flagsErr := strconv.ParseUint(fields[4], 16, 32)
		if address, ok := netip.AddrFromSlice(raw); ok && err == nil && flagsErr == nil && flags&transientFlags != 0 {
			out[address] = true
		}
	}
	return out
}

// permanent returns the addresses that are not transient. Single addresses without a subnet come
// last, because kube-vip adds its virtual address in this form.
func permanent(addresses []netip.Prefix, transient map[netip.Addr]bool) []netip.Addr {
	var own, single []netip.Addr
	for _, p := range addresses {
		switch {
		case transient[p.Addr()]:
		case p.IsSingleIP():
			single = append(single, p.Addr())
		default:
			own = append(own, p.Addr())
		}
	}
	return append(own, single...)
}

// ipv6Config returns the IPv6 configuration of the boot server. It is empty if address is invalid.
func ipv6Config(address netip.Addr, dir *bootconfig.Directory) (bootserver.ConfigIPv6, error) {
	if !address.IsValid() {
		return bootserver.ConfigIPv6{}, nil
	}
	dhcpMetrics, err := dhcp6.NewMetrics(metrics.Registry)
	if err != nil {
		return bootserver.ConfigIPv6{}, err
	}
	return bootserver.ConfigIPv6{Address: address, Advertised: dir, DHCPMetrics: dhcpMetrics}, nil
}

// agentListenIPv6 returns the additional IPv6 listen address for agents, or "". It is the boot
// server's address if agentListen binds only the IPv4 address.
func (o *Options) agentListenIPv6(address netip.Addr) string {
	host, port, err := net.SplitHostPort(o.AgentListen)
	if err != nil || host != "" || !address.IsValid() || !o.forwardsAgents() {
		return "" // agentListen listens on all addresses, or on the configured address
	}
	return net.JoinHostPort(address.String(), port)
}

// agentAddressIPv6 returns the address:port at which servers reach the agent API over IPv6, or "". It
// is an IPv6 --agent-address, or else the boot server's address if the process listens on it.
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
		return "" // the process listens on another address
	}
	return netip.AddrPortFrom(address, port).String()
}
