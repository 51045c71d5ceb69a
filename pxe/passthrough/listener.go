// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"log/slog"
	"net"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
)

// headerTimeout is how long a peer may take to send the header.
const headerTimeout = 5 * time.Second

// ListenConfig configures a listener.
type ListenConfig struct {
	// Sealed says whether a message was sealed by one who has the key. Required.
	Sealed func(message, sum []byte) bool
	// HeaderTimeout is how long a peer may take to send the header; 0 means 5 s.
	HeaderTimeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Listen takes connections of Forwarders only: RemoteAddr of a connection is where
// the agent came from, LocalAddr where it went to. A connection without a header, or
// with one that is not sealed, fails at its first read.
func Listen(inner net.Listener, c ListenConfig) net.Listener {
	if c.HeaderTimeout <= 0 {
		c.HeaderTimeout = headerTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
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
				c.Log.Info("Refused a connection to the agent API that no boot server passed on", "reason", err.Error())
			}
			return err
		},
	}
}

// HardwareOf returns the boot NIC that the boot server's DHCP has shown at the source of a
// connection of Listen, or of one that wraps such a connection and has a method NetConn;
// nil: none.
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
