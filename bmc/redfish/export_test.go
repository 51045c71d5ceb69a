// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"io"

	"github.com/ingot-metal/ingot/bmc"
)

// HurryMedia has a connection wait for no image, for tests.
func HurryMedia(c bmc.Conn) {
	if c, ok := c.(*conn); ok {
		c.mediaWait = 0
	}
}

// NewEventStream makes a stream of what is read, for tests.
func NewEventStream(body io.ReadCloser) bmc.EventStream { return newEventStream(body, func() {}) }
