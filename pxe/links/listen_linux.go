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

// ListenUDP opens a UDP socket on an address. Of several interfaces, or none, it hears
// all; one alone it is bound to, so that another server of this machine can be bound to
// another. That needs CAP_NET_RAW. See Follow for an interface that is made anew.
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

// followEvery is how soon an interface that appears, or is made anew, is served.
const followEvery = 10 * time.Second

// Follow keeps a socket of ListenUDP bound to the interface that has the name now, and
// calls each, if it is not nil, as often as it looks. The kernel binds to the interface and
// not to its name, so that a socket hears nothing any more once a bond or bridge was made
// anew. While there is none of the name the socket stays as it is. Follow ends with done.
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
			_ = bind(raw, interfaces) // one that is gone may come again
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
