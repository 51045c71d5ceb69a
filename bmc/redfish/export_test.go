// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"io"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// HurryMedia has a connection wait for no image, for tests.
func HurryMedia(c bmc.Conn) {
	if c, ok := c.(*conn); ok {
		c.mediaWait = 0
	}
}

// Age makes what a connection keeps of reads that were cut off older, for tests.
func Age(c bmc.Conn, by time.Duration) {
	if c, ok := c.(*conn); ok {
		for _, r := range c.unfinished {
			r.begun = r.begun.Add(-by)
		}
	}
}

// NewEventStream makes a stream of what is read, for tests.
func NewEventStream(body io.ReadCloser) bmc.EventStream { return newEventStream(body, func() {}) }
