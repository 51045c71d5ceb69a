// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// Scheme says how a BMC is spoken to: one of the constants, or VendorPrefix and the
// name of a driver.
type Scheme string

// The schemes.
const (
	// Bare is that of a host alone: Redfish is looked for, then IPMI.
	Bare Scheme = ""
	// Redfish speaks HTTPS.
	Redfish Scheme = "redfish"
	// RedfishHTTP speaks HTTP in clear.
	RedfishHTTP Scheme = "redfish+http"
	// IPMI is IPMI v2.0 over RMCP+.
	IPMI Scheme = "ipmi"
)

// VendorPrefix begins the schemes of the makers' own ways, such as vendor+dell.
const VendorPrefix = "vendor+"

// Address is a BMC's address in canonical form, so that equal ones compare equal.
type Address struct {
	// Scheme in lower case.
	Scheme Scheme
	// Host is a DNS name in lower case without a final dot, or an IP address in its
	// shortest form, IPv6 without brackets.
	Host string
	// Port is 0 where none is written, or the scheme's own.
	Port int
	// System is the path of the system; empty: the only one that the BMC has.
	System string
}

// String is the canonical text; Parse reads it.
func (a Address) String() string {
	var out strings.Builder
	if a.Scheme != Bare {
		out.WriteString(string(a.Scheme) + "://")
	}
	switch {
	case a.Port != 0:
		out.WriteString(net.JoinHostPort(a.Host, strconv.Itoa(a.Port)))
	case strings.Contains(a.Host, ":"):
		out.WriteString("[" + a.Host + "]")
	default:
		out.WriteString(a.Host)
	}
	out.WriteString(a.System)
	return out.String()
}

// TLS says whether a certificate of the BMC may be looked at: not by IPMI, and not
// in clear.
func (a Address) TLS() bool { return a.Scheme != IPMI && a.Scheme != RedfishHTTP }

// Key is equal for all addresses that SameSystem may call the same: the host, with
// the port where that is not one on which BMCs are found by themselves. Another port
// is another BMC: several are then reached through one address.
func (a Address) Key() string {
	if a.Port == 0 || slices.Contains(ownPorts(a.Scheme), a.Port) {
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// SameSystem reports whether two addresses can lead to the same system, by whatever
// protocol. An address without a path takes whatever system the BMC has. On a port
// that was chosen by somebody, TCP and UDP are different places.
func (a Address) SameSystem(b Address) bool {
	switch {
	case a.Key() != b.Key():
		return false
	case a.Key() != a.Host && !overlap(a.Scheme, b.Scheme):
		return false
	}
	return a.System == b.System || a.System == "" || b.System == ""
}

// ownPorts are those on which a scheme's BMCs listen by themselves: HTTPS, HTTP, and
// the primary RMCP port (IPMI v2.0 §13.1.2). The first is that of addresses without
// one; a bare address and a maker's way have none, because either may be meant.
func ownPorts(s Scheme) []int {
	switch s {
	case Redfish:
		return []int{443}
	case RedfishHTTP:
		return []int{80}
	case IPMI:
		return []int{623}
	}
	return []int{443, 623}
}

// overlap says whether two schemes may use the same transport.
func overlap(a, b Scheme) bool {
	tcp := func(s Scheme) bool { return s != IPMI }
	udp := func(s Scheme) bool { return s != Redfish && s != RedfishHTTP }
	return tcp(a) && tcp(b) || udp(a) && udp(b)
}
