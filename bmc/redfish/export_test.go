// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// HurryMedia makes a connection not wait for virtual media.
func HurryMedia(c bmc.Conn) {
	if c, ok := c.(*conn); ok {
		c.mediaWait = 0
	}
}

// Age makes the kept answers of a connection older.
func Age(c bmc.Conn, by time.Duration) {
	if c, ok := c.(*conn); ok {
		for _, r := range c.unfinished {
			r.begun = r.begun.Add(-by)
		}
	}
}

// NewEventStream returns the stream of a reader.
func NewEventStream(body io.ReadCloser) bmc.EventStream { return newEventStream(body, func() {}) }

// CloseSlowly makes the conn's new connections wait before they close. By then TLS has sent its
// close_notify to the BMC.
func CloseSlowly(c bmc.Conn, wait time.Duration) {
	base := c.(*conn).transport.base
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return slowClose{inner, wait}, nil
	}
	base.CloseIdleConnections()
}

type slowClose struct {
	net.Conn
	wait time.Duration
}

func (s slowClose) Close() error {
	time.Sleep(s.wait)
	return s.Conn.Close()
}
