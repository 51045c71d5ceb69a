// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"net"
	"net/netip"
)

// Link is an interface of this machine.
type Link struct {
	// Index and Name are the kernel's.
	Index int
	Name  string
	// Hardware is its MAC address; nil where it has none.
	Hardware net.HardwareAddr
	// Here are the interface's own subnets, IPv4 and IPv6, Elsewhere those of the
	// machine's other interfaces. None is link-local or loopback.
	Here, Elsewhere []netip.Prefix
}
