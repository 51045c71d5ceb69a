// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
	"github.com/ingot-metal/ingot/pxe/ra"
)

// ListenHost opens all sockets in the process's network namespace. Parameter interfaces is
// a comma-separated list for DHCP; empty means all interfaces (dhcp.Listen). Ports below
// 1024 need CAP_NET_BIND_SERVICE, and Ethernet frames need CAP_NET_RAW.
func ListenHost(ctx context.Context, interfaces string, cfg Config) (Sockets, error) {
	var (
		s    Sockets
		any4 net.ListenConfig
	)
	fail := func(what string, err error) (Sockets, error) {
		return Sockets{}, errors.Join(fmt.Errorf("open %s socket: %w", what, err), s.Close())
	}
	at := func(port uint16) string { return netip.AddrPortFrom(cfg.Address, port).String() }
	socket, err := dhcp.Listen(ctx, dhcp.SocketConfig{Interfaces: names(interfaces), Source: cfg.Address})
	if err != nil {
		return fail("DHCP", err)
	}
	s.DHCP = socket
	if s.BINL, err = any4.ListenPacket(ctx, "udp4", at(BINLPort)); err != nil {
		return fail("BINL", err)
	}
	if s.TFTP, err = any4.ListenPacket(ctx, "udp4", at(TFTPPort)); err != nil {
		return fail("TFTP", err)
	}
	port := cfg.HTTPPort
	if port == 0 {
		port = DefaultHTTPPort
	}
	if s.HTTP, err = any4.Listen(ctx, "tcp4", at(port)); err != nil {
		return fail("HTTP", err)
	}
	if cfg.IPv6.Address.IsValid() {
		if s.IPv6, err = listenIPv6(ctx, names(interfaces), cfg.IPv6.Address, port); err != nil {
			return Sockets{}, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// listenIPv6 opens the sockets of the IPv6 side. Router advertisements need CAP_NET_RAW.
func listenIPv6(ctx context.Context, interfaces []string, address netip.Addr, httpPort uint16) (SocketsIPv6, error) {
	var (
		s    SocketsIPv6
		any6 net.ListenConfig
	)
	fail := func(what string, err error) (SocketsIPv6, error) {
		return SocketsIPv6{}, errors.Join(fmt.Errorf("open %s socket for IPv6: %w", what, err), s.Close())
	}
	at := func(port uint16) string { return netip.AddrPortFrom(address, port).String() }
	requests, err := dhcp6.Listen(ctx, dhcp6.SocketConfig{Interfaces: interfaces})
	if err != nil {
		return fail("DHCP", err)
	}
	s.DHCP = requests
	advertise, err := ra.Listen(ctx, ra.SocketConfig{Interfaces: interfaces})
	if err != nil {
		return fail("router advertisement", err)
	}
	s.RA = advertise
	if s.TFTP, err = any6.ListenPacket(ctx, "udp6", at(TFTPPort)); err != nil {
		return fail("TFTP", err)
	}
	if s.HTTP, err = any6.Listen(ctx, "tcp6", at(httpPort)); err != nil {
		return fail("HTTP", err)
	}
	return s, nil
}

// names splits a list of names. It returns nil for an empty list.
func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
