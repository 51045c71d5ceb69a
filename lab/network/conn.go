// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// packetConn makes gVisor's UDP socket compatible with the standard library: IPv4 addresses of
// either length, and net.ErrClosed after Close.
type packetConn struct {
	*gonet.UDPConn
	// ipv6 sockets support only IPv6 addresses.
	ipv6    bool
	closing sync.Once
	onClose func() error
}

func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, addr, err := c.UDPConn.ReadFrom(b)
	if errors.Is(err, io.EOF) {
		err = &net.OpError{Op: "read", Net: "udp", Err: net.ErrClosed}
	}
	return n, addr, err
}

func (c *packetConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	ua, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("write UDP: address %v is not a UDP address", addr)
	}
	v4 := ua.IP.To4()
	if c.ipv6 {
		if v4 != nil || len(ua.IP) != net.IPv6len {
			return 0, fmt.Errorf("write UDP: address %v is not IPv6", addr)
		}
		return c.UDPConn.WriteTo(b, &net.UDPAddr{IP: ua.IP, Port: ua.Port})
	}
	if v4 == nil {
		return 0, fmt.Errorf("write UDP: address %v is not IPv4", addr)
	}
	return c.UDPConn.WriteTo(b, &net.UDPAddr{IP: v4, Port: ua.Port})
}

func (c *packetConn) Close() error {
	var err error
	c.closing.Do(func() {
		err = c.UDPConn.Close()
		if c.onClose != nil {
			err = errors.Join(err, c.onClose())
		}
	})
	return err
}

// listener frees the port on Close and unblocks Accept, for which gVisor needs two calls.
type listener struct {
	*gonet.TCPListener
	closing sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: errors.Join(net.ErrClosed, err)}
	}
	return c, nil
}

func (l *listener) Close() error {
	var err error
	l.closing.Do(func() {
		l.Shutdown()
		err = l.TCPListener.Close()
	})
	return err
}
