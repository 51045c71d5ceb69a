// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmcaddress reads the addresses of BMCs as people write them, brings them
// into one form, and tells whether two lead to the same server, so that admission
// can refuse a server that is registered twice (I8), also under two protocols.
//
// The forms are redfish://, redfish+http://, ipmi:// and vendor+<driver>://, each
// followed by host[:port] with IPv6 addresses in brackets; redfish:// and
// redfish+http:// also take the path of a System; and a host alone, with or
// without a port, whose protocol is found out by asking. Which drivers there are
// is not known here.
//
// It must not know the API, the drivers or the network: nothing is resolved or
// contacted, and two names of one BMC are different to it.
//
//	a, err := bmcaddress.Parse("redfish://bmc-1.example/redfish/v1/Systems/1")
//	b, err := bmcaddress.Parse("ipmi://bmc-1.example")
//	a.SameSystem(b) // true
package bmcaddress
