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
	return netip.Addr{}, fmt.Errorf("--boot-ipv6-address: auto: the interface with %s has no global IPv6 address that lasts (temporary, deprecated and tentative ones do not); give it one, or name the address", o.BootAddress)
}

// interfaceAddresses lists the addresses of each interface that last, see lasting.
func interfaceAddresses() ([][]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	states, err := os.ReadFile("/proc/net/if_inet6")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
		return nil, fmt.Errorf("states of IPv6 addresses: %w", err)
	}
	var out [][]netip.Addr
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		var list []netip.Prefix
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				list = append(list, prefix)
			}
		}
		out = append(out, lasting(list, passing(string(states))))
	}
	return out, nil
}

// passingFlags are those of addresses that are not for others to know: temporary (RFC
// 8981), not unique, deprecated, tentative (IFA_F_ in linux/if_addr.h).
const passingFlags = 0x01 | 0x08 | 0x20 | 0x40

// passing are the addresses that the lines of /proc/net/if_inet6 give such a flag: address,
// number of the interface, length of the prefix, scope and flags, in hexadecimal, and the
// interface's name.
func passing(states string) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for line := range strings.Lines(states) {
		fields := strings.Fields(line)
		if len(fields) != 6 {
			continue
		}
		raw, err := hex.DecodeString(fields[0])
		flags, flagsErr := strconv.ParseUint(fields[4], 16, 32)
		if address, ok := netip.AddrFromSlice(raw); ok && err == nil && flagsErr == nil && flags&passingFlags != 0 {
			out[address] = true
		}
	}
	return out
}

// lasting are the addresses without those that pass, and those without a network of their
// own last: what a kube-vip keeps beside the machine's own address has none.
func lasting(of []netip.Prefix, passing map[netip.Addr]bool) []netip.Addr {
	var own, single []netip.Addr
	for _, p := range of {
		switch {
		case passing[p.Addr()]:
		case p.IsSingleIP():
			single = append(single, p.Addr())
		default:
			own = append(own, p.Addr())
		}
	}
	return append(own, single...)
}

// ipv6Side configures the IPv6 side of the boot server, at its address; zero: there is
// none.
func ipv6Side(address netip.Addr, dir *bootconfig.Directory) (bootserver.ConfigIPv6, error) {
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
