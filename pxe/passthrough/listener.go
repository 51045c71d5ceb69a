// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"cmp"
	"log/slog"
	"net"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
)

const headerTimeout = 5 * time.Second

type ListenConfig struct {
	// Sealed reports whether a message was sealed with the shared key. Required.
	Sealed func(message, sum []byte) bool
	// HeaderTimeout limits the time for receiving the header; 0 means 5 s.
	HeaderTimeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger // may be nil
}

// Listen accepts connections of Forwarders. RemoteAddr and LocalAddr of a connection are the
// addresses of the agent's connection to the boot server. A connection without a sealed header
// fails at its first read.
func Listen(inner net.Listener, c ListenConfig) net.Listener {
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, headerTimeout)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return &proxyproto.Listener{
		Listener:          inner,
		ReadHeaderTimeout: c.HeaderTimeout,
		ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			return proxyproto.REQUIRE, nil
		},
		ValidateHeader: func(header *proxyproto.Header) error {
			err := check(header, c.Now(), c.Sealed)
			if err != nil {
				c.Log.Info("Refused a connection to the agent API that no boot server forwarded", "reason", err.Error())
			}
			return err
		},
	}
}

// HardwareOf returns the boot NIC that the boot server's DHCP saw with the source address of a
// connection, or nil. The connection is one of Listen, or wraps one with method NetConn.
func HardwareOf(conn net.Conn) net.HardwareAddr {
	for {
		if passed, ok := conn.(*proxyproto.Conn); ok {
			header := passed.ProxyHeader()
			if header == nil {
				return nil
			}
			tlvs, err := header.TLVs()
			if err != nil {
				return nil
			}
			return hardwareIn(tlvs)
		}
		wrapper, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = wrapper.NetConn()
	}
}
