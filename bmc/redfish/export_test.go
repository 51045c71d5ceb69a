// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"io"
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
