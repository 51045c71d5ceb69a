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
	"time"

	"golang.org/x/sys/unix"
)

// ListenUDP opens a UDP socket. With exactly one interface the socket is bound to it, which
// needs CAP_NET_RAW, so that another server can use the other interfaces. Otherwise the
// socket receives from all interfaces.
func ListenUDP(ctx context.Context, at netip.AddrPort, interfaces []string) (*net.UDPConn, error) {
	listen := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return bind(raw, interfaces) }}
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

const followEvery = 10 * time.Second

// Follow keeps a socket of ListenUDP bound to the interface with its name. The kernel binds to
// an interface, not to a name, so without Follow the socket is deaf after a bond or bridge is
// recreated. While the interface is missing the socket stays as it is. Follow calls each, if
// not nil, at each interval, and returns when done is closed.
func Follow(done <-chan struct{}, conn *net.UDPConn, interfaces []string, each func()) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if raw, err := conn.SyscallConn(); err == nil {
			_ = bind(raw, interfaces) // a missing interface may come back
		}
		if each != nil {
			each()
		}
	}
}

func bind(raw syscall.RawConn, interfaces []string) error {
	if len(interfaces) != 1 {
		return nil
	}
	var bindErr error
	err := raw.Control(func(fd uintptr) { bindErr = unix.BindToDevice(int(fd), interfaces[0]) })
	return errors.Join(err, bindErr)
}
