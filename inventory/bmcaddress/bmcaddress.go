// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// Scheme is the protocol of a BMC: one of the constants, or VendorPrefix and the name of a
// driver.
type Scheme string

// The schemes.
const (
	// Bare is that of a host alone. Ingot tries Redfish, then IPMI.
	Bare Scheme = ""
	// Redfish uses HTTPS.
	Redfish Scheme = "redfish"
	// RedfishHTTP uses HTTP without TLS.
	RedfishHTTP Scheme = "redfish+http"
	// IPMI is IPMI v2.0 over RMCP+.
	IPMI Scheme = "ipmi"
)

// VendorPrefix begins the schemes of vendor drivers, such as vendor+dell.
const VendorPrefix = "vendor+"

// Address is a BMC's address in canonical form, so that equal ones compare equal.
type Address struct {
	// Scheme in lower case.
	Scheme Scheme
	// Host is a DNS name in lower case without a final dot, or an IP address in its
	// shortest form, IPv6 without brackets.
	Host string
	// Port is 0 for none or the scheme's default.
	Port int
	// System is the path of the System. Empty: the only one of the BMC.
	System string
}

// String returns the canonical text, which Parse accepts.
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

// TLS reports whether the protocol may use TLS.
func (a Address) TLS() bool { return a.Scheme != IPMI && a.Scheme != RedfishHTTP }

// Key is equal for all addresses that SameSystem may consider equal: the host, with the port if
// it is not a default one. Another port is another BMC behind one address.
func (a Address) Key() string {
	if a.Port == 0 || slices.Contains(ownPorts(a.Scheme), a.Port) {
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// SameSystem reports whether two addresses may lead to the same system, by any protocol. An
// address without a path matches any system of the BMC. On a port that is not a default one, TCP
// and UDP differ.
func (a Address) SameSystem(b Address) bool {
	switch {
	case a.Key() != b.Key():
		return false
	case a.Key() != a.Host && !overlap(a.Scheme, b.Scheme):
		return false
	}
	return a.System == b.System || a.System == "" || b.System == ""
}

// ownPorts returns the default ports of a scheme: HTTPS, HTTP, and the primary RMCP port (IPMI
// v2.0 section 13.1.2). A bare address and a vendor driver may use either of two.
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

// overlap reports whether two schemes may use the same transport.
func overlap(a, b Scheme) bool {
	tcp := func(s Scheme) bool { return s != IPMI }
	udp := func(s Scheme) bool { return s != Redfish && s != RedfishHTTP }
	return tcp(a) && tcp(b) || udp(a) && udp(b)
}
