// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenUDP opens a UDP socket on an address. Of several interfaces, or none, it hears
// all; one alone it is bound to, so that another server of this machine can be bound to
// another. That needs CAP_NET_RAW.
func ListenUDP(ctx context.Context, at netip.AddrPort, interfaces []string) (*net.UDPConn, error) {
	var listen net.ListenConfig
	if len(interfaces) == 1 {
		listen.Control = func(_, _ string, raw syscall.RawConn) error {
			var bindErr error
			err := raw.Control(func(fd uintptr) { bindErr = unix.BindToDevice(int(fd), interfaces[0]) })
			return errors.Join(err, bindErr)
		}
	}
	network := "udp6"
	if at.Addr().Is4() {
		network = "udp4"
	}
	conn, err := listen.ListenPacket(ctx, network, at.String())
	if err != nil {
		return nil, fmt.Errorf("listen on UDP port %d: %w", at.Port(), err)
	}
	return conn.(*net.UDPConn), nil
}
