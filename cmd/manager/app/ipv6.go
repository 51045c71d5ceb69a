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

// ipv6Side configures the IPv6 side of the boot server.
func (o *Options) ipv6Side(dir *directory.Directory) (bootserver.ConfigIPv6, error) {
	address, err := o.bootIPv6(interfaceAddresses)
	if err != nil || !address.IsValid() {
		return bootserver.ConfigIPv6{}, err
	}
	dhcpMetrics, err := dhcp6.NewMetrics(metrics.Registry)
	if err != nil {
		return bootserver.ConfigIPv6{}, err
	}
	return bootserver.ConfigIPv6{Address: address, Advertised: dir, DHCPMetrics: dhcpMetrics}, nil
}
