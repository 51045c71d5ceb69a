// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenHost opens all sockets on the host's network (or that of the namespace
// the process is in). DHCP is bound to one interface, because broadcasts leave
// by the route of the default gateway otherwise; it needs CAP_NET_RAW for that,
// and the ports below 1024 need CAP_NET_BIND_SERVICE. An empty interface name
// leaves DHCP unbound, for machines with one network.
func ListenHost(ctx context.Context, iface string, cfg Config) (Sockets, error) {
	var (
		s    Sockets
		err  error
		dhcp net.ListenConfig
		any4 net.ListenConfig
	)
	if iface != "" {
		dhcp.Control = func(_, _ string, raw syscall.RawConn) error {
			var bindErr error
			err := raw.Control(func(fd uintptr) { bindErr = unix.BindToDevice(int(fd), iface) })
			return errors.Join(err, bindErr)
		}
	}
	fail := func(what string, err error) (Sockets, error) {
		return Sockets{}, errors.Join(fmt.Errorf("open %s socket: %w", what, err), s.Close())
	}
	at := func(port uint16) string { return netip.AddrPortFrom(cfg.Address, port).String() }
	if s.DHCP, err = dhcp.ListenPacket(ctx, "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), DHCPPort).String()); err != nil {
		return fail("DHCP", err)
	}
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
	s.Transfer = func() (net.PacketConn, error) { return any4.ListenPacket(ctx, "udp4", at(0)) }
	return s, nil
}
