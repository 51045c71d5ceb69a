// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmcaddress parses the addresses of BMCs into a canonical form, and reports whether two
// lead to the same server, so that admission can refuse a server that is registered twice (I8),
// also with two protocols.
//
// The forms are redfish://, redfish+http://, ipmi:// and vendor+<driver>://, each
// followed by host[:port] with IPv6 addresses in brackets; redfish:// and
// redfish+http:// also take the path of a System. A host alone, with or without a port, leaves
// the protocol to detection.
//
// The package does not use the API, the drivers or the network: it resolves no names, so two
// names of one BMC differ.
//
//	a, err := bmcaddress.Parse("redfish://bmc-1.example/redfish/v1/Systems/1")
//	b, err := bmcaddress.Parse("ipmi://bmc-1.example")
//	a.SameSystem(b) // true
package bmcaddress
